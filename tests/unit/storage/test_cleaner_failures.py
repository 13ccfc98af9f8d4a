"""Failures and other events during a cleaning leave a good log [compaction/steps]."""

import errno

import pytest

from coterie.protocol.records import decode_records, iterate_batches
from coterie.storage.cleanable import cleanable
from coterie.storage.cleaner import Cleaning, clean
from coterie.storage.errors import CorruptLog, LogFailed
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.swap import finish_swap
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_cleaner import (
    CONFIG,
    NOW_MS,
    bytes_of,
    filled,
    left,
    opened,
    pair,
)
from tests.unit.storage.test_golden_segments import copied


def test_a_damaged_batch_leaves_the_log_as_it_was(place: Place) -> None:
    log = filled(place)
    log.close()
    data = bytearray(place.read(f"{5:020d}.log"))
    data[100] ^= 1
    place.write(f"{5:020d}.log", bytes(data))
    names = place.names()
    log = opened(place)
    with pytest.raises(CorruptLog) as caught:
        clean(log, 0, NOW_MS, CONFIG)
    assert caught.value.path.endswith(f"{5:020d}.log")
    assert caught.value.position == 78
    assert place.names() == names
    assert not log.failed
    pair(log, b"key", b"value")


@pytest.mark.parametrize("kind", ["create", "write", "sync"])
def test_a_full_disk_leaves_the_log_as_it_was_and_usable(memory: Place, kind: str) -> None:
    filled(memory).close()
    names = memory.names()
    for n in range(1, 10):
        faulty = FaultyFileSystem(memory.filesystem)
        log = opened(memory, faulty)
        before = bytes_of(log)
        faulty.fail_at(kind, n, errno.ENOSPC, torn_bytes=3)
        try:
            clean(log, 0, NOW_MS, CONFIG)
        except OSError:
            assert memory.names() == names
            assert not log.failed
            assert bytes_of(log) == before
            pair(log, b"key", b"goes on")
            log.roll()
            names = memory.names()
        else:
            assert n > 1
            assert len(log.segments) == 2
            break


def test_any_failing_call_leaves_a_log_that_loads_the_same() -> None:
    failed = 0
    for n in range(1, 200):
        filesystem = copied("none").filesystem
        filesystem.make_directory("/other")
        memory = Place(filesystem, "/other")
        filled(memory).close()
        faulty = FaultyFileSystem(memory.filesystem)
        log = opened(memory, faulty)
        faulty.fail_at("writing", n, errno.EIO)
        try:
            clean(log, 0, NOW_MS, CONFIG._replace(segment_bytes=700))
        except (OSError, LogFailed):
            failed += 1
            assert left(log)[-1] == (19, b"value 3")
            again = opened(memory)
            assert left(again)[-1] == (19, b"value 3")
            assert again.log_end_offset == 20
            clean(again, 0, NOW_MS, CONFIG)
            assert left(again) == [(19, b"value 3")]
        else:
            break
    assert failed > 10


def test_a_removed_segment_ends_the_cleaning(place: Place) -> None:
    for steps in range(40):
        log = filled(place)
        offset = log.log_end_offset
        found = cleanable(log, log.log_start_offset, NOW_MS, CONFIG)
        cleaning = Cleaning(log, found, NOW_MS, CONFIG._replace(slice_bytes=100))
        for _, step in zip(range(steps), cleaning, strict=False):
            if step.pending is not None:
                step.pending.run()
        log.delete_records(offset)
        for step in cleaning:
            if step.pending is not None:
                step.pending.run()
        assert not [name for name in place.names() if name.endswith((".cleaned", ".swap"))]
        pair(log, b"key", b"last")
        assert left(log) == [(offset, b"last")]
        log.close()


def test_a_log_with_an_unfinished_swap_is_cleaned_only_after_it_was_reopened(place: Place) -> None:
    seen = set()
    for steps in range(1, 40):
        log = filled(place)
        found = cleanable(log, log.log_start_offset, NOW_MS, CONFIG)
        cleaning = Cleaning(log, found, NOW_MS, CONFIG)
        for _, step in zip(range(steps), cleaning, strict=False):
            if step.pending is not None:
                step.pending.run()
        cleaning.abandon()
        is_unfinished = log.swap_unfinished
        # If the new segment has its final name already, only the sync of the directory is missing.
        assert is_unfinished or f"{found.first_dirty_offset:020d}.log.swap" not in place.names()
        assert not (is_unfinished and cleanable(log, 0, NOW_MS, CONFIG).due)
        if is_unfinished:
            assert clean(log, 0, NOW_MS, CONFIG) is None
            again = Cleaning(log, found, NOW_MS, CONFIG)
            assert list(again) == []
            assert again.result.abandoned
        seen.add(is_unfinished)
        pair(log, b"key", b"last")
        log.close()
        finish_swap(
            place.filesystem,
            place.directory,
            SegmentDigests(place.filesystem, place.directory),
        )
        log = opened(place)
        assert left(log)[-1][1] == b"last"
        log.roll()
        clean(log, 0, NOW_MS, CONFIG)
        assert len(left(log)) == 1
        log.delete_records(log.log_end_offset)
        log.close()
    assert seen == {True, False}


def test_iterations_continue_across_a_swap(place: Place) -> None:
    log = filled(place)
    expected = [value for _, value in left(log)]
    chunks = log.chunks(chunk_bytes=100)
    read = [next(chunks) for _ in range(7)]
    clean(log, 0, NOW_MS, CONFIG)
    rest = list(chunks)
    found = [
        record.value
        for data in (*read, *rest)
        for position, header in iterate_batches(data)
        for record in decode_records(data, header, position)
    ]
    assert found == [*expected[:7], expected[-1]]
