"""The log: records are read by offset and time, across rolls, restarts and deletions."""

from pathlib import Path

import pytest

from coterie.protocol.records import (
    Compression,
    Record,
    decode_records,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
)
from coterie.storage.errors import CorruptLog, OffsetOutOfRange
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.open_files import OpenFiles
from coterie.storage.system_files import system_files
from coterie.storage.torn_tail import TailTrust
from tests.record_batches import pairs_in, with_append_time
from tests.unit.storage.conftest import Place

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def batch(*values: bytes, timestamp_ms: int = NOW_MS, compression: int = 0) -> bytes:
    records = [Record(at, timestamp_ms, b"key", value) for at, value in enumerate(values)]
    return encode_records(records, compression=Compression(compression))


def filled(place: Place, batches: int = 60, config: LogConfig = SMALL) -> Log:
    """Return a log of batches of one to three records, ten milliseconds apart."""
    log = Log.open(place.filesystem, place.directory, config)
    for number in range(batches):
        values = [b"value %d" % number] * (number % 3 + 1)
        log.append(batch(*values, timestamp_ms=NOW_MS + 10 * number))
    return log


def records_of(data: bytes) -> list[Record]:
    records = []
    for position, header in iterate_batches(data):
        records += decode_records(data, header, position)
    return records


def test_a_new_log_is_empty(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, 1000) == b""
    assert list(log.chunks()) == []
    assert log.max_timestamp() == (-1, -1)
    assert log.offset_for_timestamp(0) is None
    assert place.names() == ["00000000000000000000.log"]


def test_appending_gives_offsets_and_the_epoch(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory)
    assert log.append(batch(b"a", b"b")) == 0
    log.leader_epoch = 4
    assert log.append(batch(b"c")) == 2
    assert log.append(encode_batch([(b"k", b"d")], 3, NOW_MS, leader_epoch=4)) == 3
    assert log.log_end_offset == 4
    headers = [header for _, header in iterate_batches(log.read(0, 10_000))]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [
        (0, 0), (2, 4), (3, 4),
    ]  # fmt: skip
    assert [record.value for record in records_of(log.read(0, 10_000))] == [b"a", b"b", b"c", b"d"]
    assert log.epochs.entries == [(0, 0), (4, 2)]


def test_several_batches_are_one_append(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory)
    assert log.append(batch(b"a") + batch(b"b", b"c") + batch(b"d")) == 0
    assert log.append(batch(b"e") + batch(b"f")) == 4
    assert [record.offset for record in records_of(log.read(0, 10_000))] == [0, 1, 2, 3, 4, 5]


def test_only_whole_batches_of_magic_2_are_appended(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory)
    with pytest.raises(AssertionError):
        log.append(b"")
    with pytest.raises(AssertionError):
        log.append(batch(b"a")[:-1])
    with pytest.raises(AssertionError):
        log.append(batch(b"a")[:16] + b"\x01" + batch(b"a")[17:])
    assert log.log_end_offset == 0
    assert not log.failed


@pytest.mark.parametrize("reopened", [False, True])
def test_every_offset_is_read_from_its_batch(place: Place, reopened: bool) -> None:
    log = filled(place)
    if reopened:
        log.close()
        log = Log.open(place.filesystem, place.directory, SMALL)
    assert len(log.segments) > 5
    assert log.log_end_offset == 120
    for offset in range(120):
        data = log.read(offset, 300)
        header = read_header(data)
        assert header.base_offset <= offset <= header.last_offset
        assert len(data) <= 300
        records = records_of(data)
        assert [record.offset for record in records] == list(
            range(records[0].offset, records[-1].offset + 1)
        )


def test_reading_goes_on_where_it_stopped(place: Place) -> None:
    log = filled(place)
    seen: list[Record] = []
    offset = 0
    while data := log.read(offset, 250):
        seen += records_of(data)
        offset = seen[-1].offset + 1
    assert [record.offset for record in seen] == list(range(120))
    log.append(batch(b"new"))
    assert [record.value for record in records_of(log.read(offset, 250))] == [b"new"]


def test_one_batch_is_read_even_if_it_is_larger(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory)
    log.append(batch(b"small"))
    log.append(batch(b"x" * 50_000))
    log.append(batch(b"small"))
    for max_bytes in (0, 1, 61, 100):
        assert [record.offset for record in records_of(log.read(1, max_bytes))] == [1]
    assert [record.offset for record in records_of(log.read(0, 10_000))] == [0]
    assert [record.offset for record in records_of(log.read(0, 1 << 20))] == [0, 1, 2]


def test_offsets_outside_are_refused(place: Place) -> None:
    log = filled(place, 3)
    for offset in (-1, 7, 1 << 62):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, 100)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 6)


def test_chunks_are_whole_batches_in_bounded_pieces(place: Place) -> None:
    log = filled(place)
    chunks = list(log.chunks(chunk_bytes=400))
    assert all(len(chunk) <= 400 for chunk in chunks)
    assert [record.offset for record in records_of(b"".join(chunks))] == list(range(120))
    pairs = [pair for chunk in log.chunks() for pair in pairs_in(chunk)]
    assert len(pairs) == 120
    assert records_of(b"".join(log.chunks(100)))[0].offset in (99, 100)


def test_chunks_end_where_the_log_ended(place: Place) -> None:
    log = filled(place, 10)
    chunks = log.chunks(chunk_bytes=100)
    next(chunks)
    end = log.log_end_offset
    for _ in range(10):
        log.append(batch(b"later"))
    assert records_of(b"".join(chunks))[-1].offset >= end - 1
    assert len(list(log.chunks(chunk_bytes=100))) > 0


def test_segments_roll_by_size_and_are_named_by_offset(place: Place) -> None:
    log = filled(place)
    assert all(segment.size <= 1000 for segment in log.segments)
    bases = [segment.base_offset for segment in log.segments]
    assert [name for name in place.names() if name.endswith(".log")] == [
        f"{base:020d}.log" for base in bases
    ]
    log.append(batch(b"x" * 5000))
    assert log.segments[-1].size > 5000, "a batch that is larger than a segment has its own"
    before = len(log.segments)
    log.append(batch(b"y"))
    assert len(log.segments) == before + 1


def test_segments_roll_by_the_span_of_their_times(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory, LogConfig(segment_ms=1000))
    for late_ms in (0, 500, 1000, 1001, 1500, 2002):
        log.append(batch(b"x", timestamp_ms=NOW_MS + late_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5]
    log.close()
    log = Log.open(place.filesystem, place.directory, LogConfig(segment_ms=1000))
    log.append(batch(b"x", timestamp_ms=NOW_MS + 3002))
    log.append(batch(b"x", timestamp_ms=NOW_MS + 3003))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5, 7]


def test_segments_roll_when_an_index_is_full(place: Place) -> None:
    """Of the time index, whose entries have 12 bytes, the last entry is kept for the end."""
    config = LogConfig(index_interval_bytes=0, index_bytes=36)
    log = Log.open(place.filesystem, place.directory, config)
    for late_ms in range(10):
        log.append(batch(b"x", timestamp_ms=NOW_MS + late_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]


def test_batches_without_a_time_roll_by_size_alone(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory, LogConfig(segment_ms=1000))
    log.append(batch(b"x", timestamp_ms=-1))
    log.append(batch(b"x"))
    assert len(log.segments) == 1
    assert log.max_timestamp() == (NOW_MS, 1)


def test_a_log_is_rolled_on_request(place: Place) -> None:
    log = filled(place, 2, LogConfig())
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert log.append(batch(b"x")) == 3


def test_a_restart_finds_everything(place: Place) -> None:
    log = filled(place)
    before = b"".join(log.chunks())
    sizes = [segment.size for segment in log.segments]
    log.close()
    log = Log.open(place.filesystem, place.directory, SMALL)
    assert log.tail_cut is None
    assert [segment.size for segment in log.segments] == sizes
    assert b"".join(log.chunks()) == before
    assert log.append(batch(b"next")) == 120


@pytest.mark.parametrize("reopened", [False, True])
def test_no_batch_is_read_behind_the_wanted_offset(place: Place, reopened: bool) -> None:
    log = filled(place, config=LogConfig(segment_bytes=5000, index_interval_bytes=200))
    if reopened:
        log.abandon()
        log = Log.open(place.filesystem, place.directory)
    for offset in range(0, log.log_end_offset, 31):
        unlimited = records_of(log.read(offset, 2000))
        for wanted in range(offset, min(offset + 30, unlimited[-1].offset)):
            for max_bytes in (2000, 150, 0):
                read = records_of(log.read(offset, max_bytes, wanted))
                limited = records_of(log.read(offset, max_bytes))
                assert read == limited[: len(read)]
                is_cut = read[-1].offset < limited[-1].offset
                last_first = [each for each in read if each.value != read[-1].value]
                assert not last_first or last_first[-1].offset < wanted
                assert not is_cut or read[-1].offset >= wanted


def test_a_log_that_was_not_closed_is_read_completely(place: Place) -> None:
    log = filled(place)
    again = Log.open(place.filesystem, place.directory, SMALL)
    assert b"".join(again.chunks()) == b"".join(log.chunks())


def test_a_time_is_found_at_its_lowest_offset(place: Place) -> None:
    log = filled(place)
    for reopened in (False, True):
        if reopened:
            log.close()
            log = Log.open(place.filesystem, place.directory, SMALL)
        everything = records_of(b"".join(log.chunks()))
        for timestamp_ms in range(NOW_MS - 5, NOW_MS + 600, 5):
            later = [record for record in everything if record.timestamp_ms >= timestamp_ms]
            expected = (later[0].timestamp_ms, later[0].offset) if later else None
            assert log.offset_for_timestamp(timestamp_ms) == expected
        assert log.max_timestamp() == (NOW_MS + 590, 117)


def test_times_out_of_order_are_found(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory, SMALL)
    stamps = [5, 3, 9, 1, 9, 7, 2, 8] * 8
    for stamp in stamps:
        log.append(batch(b"x" * 60, timestamp_ms=stamp))
    assert len(log.segments) > 3
    assert log.offset_for_timestamp(6) == (9, 2)
    assert log.offset_for_timestamp(9) == (9, 2)
    assert log.offset_for_timestamp(10) is None
    assert log.max_timestamp() == (9, 2)


@pytest.mark.parametrize("compression", list(Compression))
def test_times_are_found_inside_of_batches(place: Place, compression: Compression) -> None:
    log = Log.open(place.filesystem, place.directory)
    records = [Record(at, stamp, b"k", b"v") for at, stamp in enumerate([10, 40, 20, 40, 30])]
    log.append(encode_records(records, compression=compression))
    assert log.offset_for_timestamp(10) == (10, 0)
    assert log.offset_for_timestamp(11) == (40, 1)
    assert log.offset_for_timestamp(41) is None
    assert log.max_timestamp() == (40, 1)
    log.delete_records(2)
    assert log.offset_for_timestamp(11) == (20, 2)
    assert log.offset_for_timestamp(21) == (40, 3)


def test_log_append_time_is_the_time_of_all_records(place: Place) -> None:
    log = Log.open(place.filesystem, place.directory)
    records = [Record(at, stamp, b"k", b"v") for at, stamp in enumerate([10, 40, 20])]
    log.append(with_append_time(encode_records(records), 100))
    assert log.offset_for_timestamp(41) == (100, 0)
    assert log.max_timestamp() == (100, 0)


def test_an_undecodable_batch_counts_with_its_first_offset(place: Place) -> None:
    nonsense = bytearray(
        encode_records([Record(0, 10, b"k", b"v" * 9)], compression=Compression.LZ4)
    )
    nonsense[61:] = bytes(len(nonsense) - 61)
    log = Log.open(place.filesystem, place.directory)
    log.append(batch(b"x", timestamp_ms=5))
    # The broker stores compressed batches as they came, so this batch can exist in a log.
    log.append(with_append_time(bytes(nonsense), 10))
    assert log.offset_for_timestamp(7) == (10, 1)


def test_deleting_records_moves_the_start(place: Place) -> None:
    log = filled(place)
    bases = [segment.base_offset for segment in log.segments]
    assert log.delete_records(bases[3] + 1) == bases[3] + 1
    assert log.log_start_offset == bases[3] + 1
    assert [segment.base_offset for segment in log.segments] == bases[3:]
    assert f"{bases[2]:020d}.log" not in place.names()
    assert f"{bases[2]:020d}.index" not in place.names()
    with pytest.raises(OffsetOutOfRange):
        log.read(bases[3], 100)
    assert read_header(log.read(bases[3] + 1, 100)).base_offset <= bases[3] + 1
    assert log.delete_records(0) == bases[3] + 1, "the start never moves back"
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(121)
    log.close()
    log = Log.open(place.filesystem, place.directory, SMALL, log_start_offset=log.log_start_offset)
    assert log.log_start_offset == bases[3] + 1
    with pytest.raises(OffsetOutOfRange):
        log.read(bases[3], 100)


def test_a_log_whose_records_are_all_deleted_goes_on(place: Place) -> None:
    log = filled(place)
    assert log.delete_records(120) == 120
    assert [name for name in place.names() if name.endswith(".log")] == [f"{120:020d}.log"]
    assert log.read(120, 100) == b""
    assert log.append(batch(b"x")) == 120
    log.close()
    log = Log.open(place.filesystem, place.directory, SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (120, 121)


def test_a_start_behind_the_end_begins_the_log_anew(place: Place) -> None:
    # A loss of power has kept the checkpoint of the start, and not the records before it.
    filled(place, 3).close()
    reason = "ends at offset 6, but log-start-offset-checkpoint lets it begin at 50"
    with pytest.raises(CorruptLog, match=reason):
        Log.open(place.filesystem, place.directory, SMALL, log_start_offset=50)
    log = Log.open(
        place.filesystem,
        place.directory,
        SMALL,
        log_start_offset=50,
        trust=TailTrust.POWER_LOST_UNSYNCED,
    )
    assert log.tail_cut is not None
    assert "began at offset 50, and ends before" in log.tail_cut.reason
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert log.append(batch(b"x")) == 50
    assert [name for name in place.names() if name.endswith(".log")] == [f"{50:020d}.log"]


def test_many_logs_share_few_open_files(place: Place) -> None:
    files = OpenFiles(place.filesystem, limit=8)
    logs = []
    for number in range(20):
        directory = f"{place.directory}/{number}"
        place.filesystem.make_directory(directory)
        logs.append(Log.open(place.filesystem, directory, SMALL, files=files))
    for value in range(30):
        for log in logs:
            log.append(batch(b"%d" % value))
            assert files.count <= 8
    for log in logs:
        assert len(records_of(b"".join(log.chunks()))) == 30
        log.close()
    assert files.count == 0


def test_the_file_that_was_used_longest_ago_is_closed_first(tmp_path: Path) -> None:
    files = OpenFiles(system_files(), limit=4)
    first, second, *others = [(tmp_path / name).as_posix() for name in "abcde"]
    opened = [files.create(path) for path in (first, second, *others[:2])]
    assert files.get(first) is opened[0]
    files.create(others[2])
    assert files.count == 4
    assert files.get(first) is opened[0]
    assert files.get(second) is not opened[1]
    files.close()


def test_logs_share_an_empty_table_of_open_files(memory: Place) -> None:
    """A table without open files must not be taken for none."""
    files = OpenFiles(memory.filesystem)
    logs: list[Log] = []
    for name in ("first", "second"):
        directory = f"{memory.directory}/{name}"
        memory.filesystem.make_directory(directory)
        assert files.count == len(logs)
        logs.append(Log.open(memory.filesystem, directory, SMALL, files=files))
    assert all(log.files is files for log in logs)
    assert files.count == 2
