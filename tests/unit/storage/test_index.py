"""The indexes: searches, the bytes of the files, and which files are loaded."""

import random
import struct

import pytest

from coterie.storage.index import PENDING_ENTRIES, OffsetIndex, SegmentIndexes, TimeIndex
from coterie.storage.open_files import OpenFiles
from tests.unit.storage.conftest import Place


def index_of(place: Place, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(OpenFiles(place.filesystem), f"{place.directory}/0.index")
    for entry in entries:
        index.append(*entry)
    return index


@pytest.mark.parametrize("count", [0, 1, 2, PENDING_ENTRIES - 1, PENDING_ENTRIES, 5000])
@pytest.mark.parametrize("flushed", [False, True])
def test_floor_is_the_last_entry_not_above(memory: Place, count: int, flushed: bool) -> None:
    entries = [(number * 10, number * 100 + 7) for number in range(1, count + 1)]
    index = index_of(memory, entries)
    if flushed:
        index.flush()
        index = index_of(memory, [])
        assert index.load()
    assert len(index) == count
    assert index.last == (entries[-1] if entries else None)
    for target in {0, 9, 10, 11, count * 10, count * 10 + 1, 1 << 30} | {
        random.Random(count).randrange(count * 10 + 20) for _ in range(50)
    }:
        below = [entry for entry in entries if entry[0] <= target]
        assert index.floor(target) == (below[-1] if below else None)
        below = [entry for entry in entries if entry[1] <= target]
        assert index.floor(target, 1) == (below[-1] if below else None)


def test_the_file_has_kafkas_entries(place: Place) -> None:
    index = index_of(place, [(8, 392), (13, 788)])
    index.flush()
    assert place.read("0.index") == bytes.fromhex("00000008 00000188 0000000d 00000314")
    times = TimeIndex(OpenFiles(place.filesystem), f"{place.directory}/0.timeindex")
    times.append(1_795_000_000_000, 2)
    times.flush()
    assert place.read("0.timeindex") == struct.pack(">qi", 1_795_000_000_000, 2)


def test_flushing_cuts_a_longer_file(memory: Place) -> None:
    memory.write("0.index", b"\x01" * 800)
    index = index_of(memory, [(8, 392)])
    index.flush()
    assert memory.read("0.index") == bytes.fromhex("00000008 00000188")


def test_zeros_at_the_end_of_a_preallocated_file_are_not_entries(memory: Place) -> None:
    written = b"".join(struct.pack(">ii", number, number * 9) for number in range(1, 1000))
    memory.write("0.index", written + bytes(8 * 4000))
    index = index_of(memory, [])
    assert index.load()
    assert (len(index), index.last) == (999, (999, 8991))
    assert index.floor(500) == (500, 4500)
    index.append(1001, 9999)
    index.flush()
    assert memory.read("0.index") == written + struct.pack(">ii", 1001, 9999)
    memory.write("0.index", bytes(800))
    assert index.load()
    assert (len(index), index.last) == (0, None)


def test_a_file_that_is_not_an_index_is_not_loaded(memory: Place) -> None:
    index = index_of(memory, [])
    assert not index.load(), "the file is missing"
    memory.write("0.index", b"1234567")
    assert not index.load(), "its length is not a number of entries"


def test_entries_that_do_not_fit_the_log_are_not_loaded(memory: Place) -> None:
    def loads(log_bytes: int) -> bool:
        files = OpenFiles(memory.filesystem)
        return SegmentIndexes(files, f"{memory.directory}/0", 0, 4096).load(log_bytes)

    memory.write("0.index", struct.pack(">ii", 5, 1000))
    memory.write("0.timeindex", struct.pack(">qi", 7, 5))
    assert loads(1001)
    assert not loads(1000), "an entry points behind the log"
    memory.write("0.timeindex", b"")
    assert not loads(1001), "a finished segment has a timestamp"
    memory.write("0.index", b"")
    assert loads(0)
    memory.write("0.index", struct.pack(">ii", -5, 10))
    memory.write("0.timeindex", struct.pack(">qi", 7, 5))
    assert not loads(1001), "an offset is before the segment's first"


def test_timestamps_that_do_not_grow_get_no_entry(memory: Place) -> None:
    indexes = SegmentIndexes(OpenFiles(memory.filesystem), f"{memory.directory}/0", 100, 10)
    facts = [
        (at * 20, 20, 100 + at, 100 + at, stamp) for at, stamp in enumerate([5, 5, 3, 9, 9, -1])
    ]
    assert indexes.add(facts, 0) == 105
    indexes.finish()
    assert list(struct.iter_unpack(">ii", memory.read("0.index"))) == [
        (1, 20), (2, 40), (3, 60), (4, 80), (5, 100),
    ]  # fmt: skip
    # Each timestamp has the offset of the batch that had it first.
    assert list(struct.iter_unpack(">qi", memory.read("0.timeindex"))) == [(5, 0), (9, 3)]
    assert indexes.max_timestamp == (9, 103)
