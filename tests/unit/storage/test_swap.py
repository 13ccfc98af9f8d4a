"""Interrupted cleanings, ours and Kafka's, are finished or discarded [compaction/swap]."""

import pytest

from coterie.protocol.records import encode_batch
from coterie.storage.cleanable import cleanable
from coterie.storage.cleaner import Cleaning
from coterie.storage.errors import CorruptLog
from coterie.storage.log import Log
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.swap import finish_swap
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_cleaner import CONFIG, NOW_MS, filled, left, opened

LOG_0, LOG_5, LOG_10 = (f"{base:020d}.log" for base in (0, 5, 10))


def batch(offset: int) -> bytes:
    return encode_batch([(b"key", b"%d" % offset)], offset, NOW_MS)


def copy_of(place: Place) -> Place:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(place.directory)
    copy = Place(filesystem, place.directory)
    for name in place.names():
        copy.write(name, place.read(name))
    return copy


def newest(log: Log) -> tuple[int, bytes | None]:
    return left(log)[-1]


def test_a_restart_after_any_step_finds_the_same_newest_records(memory: Place) -> None:
    log = filled(memory)
    found = cleanable(log, 0, NOW_MS, CONFIG)
    swaps = 0
    for step in Cleaning(log, found, NOW_MS, CONFIG._replace(segment_bytes=900, slice_bytes=200)):
        for done in (False, True):
            if done and step.pending is not None:
                step.pending.run()
            place = copy_of(memory)
            swaps += any(name.endswith(".swap") for name in place.names())
            again = opened(place)
            assert newest(again) == (19, b"value 3")
            assert (again.log_start_offset, again.log_end_offset) == (0, 20)
            assert not [name for name in place.names() if name.endswith(("ed", ".swap"))]
            again.close()
    assert swaps >= 6


def test_finishing_a_swap_removes_only_what_it_replaces(place: Place) -> None:
    place.write(LOG_0, batch(0) + batch(1))
    place.write(f"{0:020d}.index", b"stale---")
    place.write(LOG_5, batch(5))
    place.write(LOG_10, batch(10))
    place.write(LOG_0 + ".swap", batch(1) + batch(5))
    place.write(f"{0:020d}.timeindex.swap", bytes(12))
    finish_swap(
        place.filesystem,
        place.directory,
        SegmentDigests(place.filesystem, place.directory),
    )
    assert place.names() == [LOG_0, f"{0:020d}.timeindex", LOG_10]
    assert place.read(LOG_0) == batch(1) + batch(5)
    files = {name: place.read(name) for name in place.names()}
    finish_swap(
        place.filesystem,
        place.directory,
        SegmentDigests(place.filesystem, place.directory),
    )
    assert {name: place.read(name) for name in place.names()} == files


def test_an_empty_swap_replaces_only_the_segment_of_its_name(place: Place) -> None:
    place.write(LOG_0, batch(0))
    place.write(LOG_5, batch(5))
    place.write(LOG_0 + ".swap", b"")
    finish_swap(
        place.filesystem,
        place.directory,
        SegmentDigests(place.filesystem, place.directory),
    )
    assert (place.read(LOG_0), place.read(LOG_5)) == (b"", batch(5))


def test_only_unfinished_files_are_removed(place: Place) -> None:
    place.write(LOG_0, batch(0))
    for suffix in (".cleaned", ".deleted"):
        place.write(LOG_5 + suffix, b"x")
        place.write(f"{5:020d}.index{suffix}", b"x")
    place.write("notes.deleted", b"mine")
    finish_swap(
        place.filesystem,
        place.directory,
        SegmentDigests(place.filesystem, place.directory),
    )
    assert place.names() == [LOG_0, "notes.deleted"]


def test_an_unfinished_split_of_kafka_is_discarded(place: Place) -> None:
    place.write(LOG_0, batch(0) + batch(5))
    place.write(LOG_0 + ".cleaned", batch(0))
    place.write(LOG_5 + ".swap", batch(5))
    finish_swap(
        place.filesystem,
        place.directory,
        SegmentDigests(place.filesystem, place.directory),
    )
    assert place.names() == [LOG_0]


def test_a_damaged_swap_is_an_error_and_nothing_is_removed(place: Place) -> None:
    place.write(LOG_0, batch(0))
    place.write(LOG_10, b"")
    data = bytearray(batch(0))
    data[-1] ^= 1
    place.write(LOG_0 + ".swap", bytes(data))
    with pytest.raises(CorruptLog):
        finish_swap(
            place.filesystem,
            place.directory,
            SegmentDigests(place.filesystem, place.directory),
        )
    # This one would replace the active segment, which is never cleaned.
    place.write(LOG_0 + ".swap", batch(0) + batch(100))
    with pytest.raises(CorruptLog):
        finish_swap(
            place.filesystem,
            place.directory,
            SegmentDigests(place.filesystem, place.directory),
        )
    assert place.names() == [LOG_0, LOG_0 + ".swap", LOG_10]
