"""A crash leaves an incomplete end, which is cut off; damage is reported by file and position."""

import struct

import pytest

from coterie.protocol.records import encode_batch, iterate_batches
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File
from coterie.storage.index import OffsetIndex
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.segment import TailCut
from coterie.storage.torn_tail import TailTrust
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_log import NOW_MS, SMALL, batch, filled, records_of

LOG = "00000000000000000000.log"


def flip(place: Place, name: str, position: int, bits: int = 1) -> None:
    data = bytearray(place.read(name))
    data[position] ^= bits
    place.write(name, bytes(data))


def test_a_log_cut_at_any_byte_keeps_its_whole_batches(memory: Place) -> None:
    log = filled(memory, 12, LogConfig())
    log.close()
    data = memory.read(LOG)
    ends = [0] + [position + header.length_bytes for position, header in iterate_batches(data)]
    offsets = [0] + [header.next_offset for _, header in iterate_batches(data)]
    for length in range(len(data) + 1):
        place = fresh(data[:length])
        log = Log.open(place.filesystem, place.directory)
        whole = max(number for number, end in enumerate(ends) if end <= length)
        assert log.log_end_offset == offsets[whole]
        assert b"".join(log.chunks()) == data[: ends[whole]]
        assert len(place.read(LOG)) == ends[whole], "the incomplete batch was cut off"
        if length == ends[whole]:
            assert log.tail_cut is None
        else:
            assert log.tail_cut is not None
            assert log.tail_cut[:3] == (f"/data/{LOG}", ends[whole], length - ends[whole])
        assert log.append(batch(b"next")) == offsets[whole]
        assert records_of(b"".join(log.chunks()))[-1].value == b"next"


def fresh(data: bytes) -> Place:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    place = Place(filesystem, "/data")
    place.write(LOG, data)
    return place


def test_a_flipped_bit_in_the_last_segment_ends_the_log_before_its_batch(memory: Place) -> None:
    log = filled(memory, 4, LogConfig())
    data = memory.read(LOG)
    batches = list(iterate_batches(data))
    position, header = batches[2]
    log.close()
    for at in range(position, position + header.length_bytes):
        if position + 12 <= at < position + 16:
            continue  # The checksum does not cover the leader epoch, and any value is legal.
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            place = fresh(bytes(damaged))
            log = Log.open(place.filesystem, place.directory)
            assert log.log_end_offset == header.base_offset, f"byte {at} bit {bit}"
            assert b"".join(log.chunks()) == data[:position]


def test_a_cut_says_what_was_wrong(memory: Place) -> None:
    filled(memory, 2, LogConfig()).close()
    size = len(memory.read(LOG))
    memory.write(LOG, memory.read(LOG) + bytes(30))
    log = Log.open(memory.filesystem, memory.directory)
    reason = "12 bytes are claimed where 30 are left"
    assert log.tail_cut is not None
    assert log.tail_cut[:3] == TailCut(f"/data/{LOG}", size, 30, reason)[:3]
    memory.write(LOG, memory.read(LOG) + encode_batch([(b"k", b"v")], 99, NOW_MS))
    log = Log.open(memory.filesystem, memory.directory)
    assert log.tail_cut is not None
    assert log.tail_cut.reason == "offset 99 where 3 is expected"


def test_below_the_recovery_point_nothing_is_cut(memory: Place) -> None:
    filled(memory, 4, LogConfig()).close()
    position, header = list(iterate_batches(memory.read(LOG)))[2]
    flip(memory, LOG, position + 70)
    with pytest.raises(CorruptLog, match=f"{LOG}: damaged at byte {position}: the checksum"):
        Log.open(memory.filesystem, memory.directory, recovery_point=header.base_offset + 1)
    assert len(memory.read(LOG)) > position, "the damaged bytes are kept"
    log = Log.open(memory.filesystem, memory.directory, recovery_point=header.base_offset)
    assert log.log_end_offset == header.base_offset


def test_only_compacted_logs_may_have_gaps(memory: Place) -> None:
    data = encode_batch([(b"a", b"1")], 3, NOW_MS) + encode_batch([(b"b", b"2")], 9, NOW_MS)
    place = fresh(data)
    compacted = LogConfig(compacted=True, index_interval_bytes=1)
    log = Log.open(place.filesystem, place.directory, compacted)
    assert log.log_end_offset == 10
    for offset, expected in ((0, 3), (3, 3), (4, 9), (9, 9)):
        assert records_of(log.read(offset, 1))[0].offset == expected
    back = encode_batch([(b"b", b"2")], 2, NOW_MS)
    place = fresh(data + back)
    log = Log.open(place.filesystem, place.directory, compacted)
    assert log.log_end_offset == 10, "offsets never move back"
    place = fresh(data)
    log = Log.open(place.filesystem, place.directory)
    assert log.log_end_offset == 0


def test_an_empty_segment_of_a_compacted_log_is_skipped(memory: Place) -> None:
    memory.write(LOG, b"")
    memory.write(f"{50:020d}.log", encode_batch([(b"a", b"1")], 50, NOW_MS))
    log = Log.open(memory.filesystem, memory.directory, LogConfig(compacted=True))
    assert records_of(log.read(0, 1000))[0].offset == 50
    assert log.offset_for_timestamp(0) == (NOW_MS, 50)
    assert len(b"".join(log.chunks())) > 0
    with pytest.raises(CorruptLog, match="the file is empty, but 50 follows"):
        Log.open(memory.filesystem, memory.directory)


@pytest.mark.parametrize("indexes", ["kept", "lost"])
def test_damage_in_an_older_segment_is_found_by_a_read(memory: Place, indexes: str) -> None:
    filled(memory).close()
    name = next(name for name in memory.names() if name.endswith(".log") and int(name[:20]))
    data = memory.read(name)
    batches = list(iterate_batches(data))
    position, header = batches[3]
    if indexes == "lost":
        memory.filesystem.remove(f"/data/{name[:20]}.index")
    for at, why in ((70, "checksum"), (8, ""), (16, "no header"), (2, "offset")):
        flip(memory, name, position + at, 0x10)
        log = Log.open(memory.filesystem, memory.directory, SMALL)
        assert log.tail_cut is None
        with pytest.raises(CorruptLog, match=f"{name}: damaged at byte {position}: .*{why}"):
            list(log.chunks())
        with pytest.raises(CorruptLog, match=f"{name}: damaged at byte {position}"):
            log.read(header.base_offset, 10_000)
        # The other segments can still be read.
        assert log.read(0, 100)
        flip(memory, name, position + at, 0x10)
    log = Log.open(memory.filesystem, memory.directory, SMALL)
    assert len(records_of(b"".join(log.chunks()))) == 120


def test_an_older_segment_that_is_too_short_is_damage(memory: Place) -> None:
    filled(memory).close()
    name = memory.names()[1]
    assert name.endswith(".log")
    data = memory.read(name)
    log = Log.open(memory.filesystem, memory.directory, SMALL)
    memory.write(name, data[:-10])
    with pytest.raises(CorruptLog, match=name):
        list(log.chunks())
    log = Log.open(memory.filesystem, memory.directory, SMALL)
    with pytest.raises(CorruptLog, match=name):
        list(log.chunks())


def test_a_short_older_segment_does_not_hide_its_missing_records(memory: Place) -> None:
    # After a cut between two batches every check of that segment alone succeeds.
    filled(memory).close()
    name = memory.names()[1]
    data = memory.read(name)
    last_position, _ = list(iterate_batches(data))[-1]
    memory.write(name, data[:last_position])
    log = Log.open(memory.filesystem, memory.directory, SMALL)
    with pytest.raises(CorruptLog, match=f"{name}: damaged at byte {last_position}"):
        list(log.chunks())


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\x01" * 9,
        b"\x7f" * 24,
        struct.pack(">iiiiii", 1, 3, 2, 5, 3, 7),
        struct.pack(">iii", 0, 0, 1) * 2,
    ],
)
def test_wrong_and_missing_indexes_are_rebuilt(
    memory: Place, suffix: str, content: bytes | None
) -> None:
    filled(memory).close()
    right = {name: memory.read(name) for name in memory.names()}
    for name in right:
        if name.endswith("." + suffix):
            memory.filesystem.remove(f"/data/{name}")
            if content is not None:
                memory.write(name, content)
    log = Log.open(memory.filesystem, memory.directory, SMALL)
    everything = records_of(b"".join(filled(other()).chunks()))
    for offset in range(120):
        assert records_of(log.read(offset, 1))[-1].offset >= offset
        assert records_of(log.read(offset, 1))[0].offset <= offset
    for timestamp_ms in range(NOW_MS, NOW_MS + 600, 10):
        later = [record for record in everything if record.timestamp_ms >= timestamp_ms]
        assert log.offset_for_timestamp(timestamp_ms) == (later[0].timestamp_ms, later[0].offset)
    log.close()
    if content is None:
        assert {name: memory.read(name) for name in memory.names()} == right


def other() -> Place:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    return Place(filesystem, "/data")


def test_an_index_that_shrinks_while_in_use_is_rebuilt(memory: Place) -> None:
    log = filled(memory)
    name = memory.names()[0]
    assert name.endswith(".index")
    memory.write(name, b"")
    for offset in range(10):
        assert records_of(log.read(offset, 1))[0].offset <= offset


def test_files_left_by_crashes_are_removed_and_unknown_files_are_kept(memory: Place) -> None:
    filled(memory).close()
    keep = [*memory.names(), "00000000000000000000.snapshot", "notes.txt"]
    for name in (
        "00000000000000000000.log.deleted", "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp", f"{7:020d}.index", f"{7:020d}.timeindex",
        f"{7:020d}.txnindex", "00000000000000000000.snapshot", "notes.txt",
    ):  # fmt: skip
        memory.write(name, b"x")
    Log.open(memory.filesystem, memory.directory, SMALL)
    assert memory.names() == sorted(keep)


def test_an_interrupted_cleaning_is_finished_or_discarded(memory: Place) -> None:
    filled(memory).close()
    base = next(
        int(name[:20]) for name in memory.names() if name.endswith(".log") and int(name[:20])
    )
    data = memory.read(LOG)
    cleaned = data[next(iterate_batches(data))[1].length_bytes :]
    memory.write(LOG + ".cleaned", cleaned)
    config = SMALL._replace(compacted=True)
    log = Log.open(memory.filesystem, memory.directory, config)
    assert records_of(log.read(0, 1))[0].offset == 0
    memory.write(LOG + ".swap", cleaned)
    log = Log.open(memory.filesystem, memory.directory, config)
    assert memory.read(LOG) == cleaned
    assert records_of(log.read(0, 1))[0].offset == 1
    assert records_of(log.read(base, 1))[0].offset == base
    memory.write(LOG + ".swap", cleaned[:-1])
    with pytest.raises(CorruptLog, match=r"\.log\.swap"):
        Log.open(memory.filesystem, memory.directory, config)


def test_a_large_segment_is_not_read_as_a_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(place.filesystem, place.directory)
    for _ in range(64):
        log.append(b"".join(encode_batch([(b"k", b"v" * 400)] * 10, 0, NOW_MS) for _ in range(8)))
    log.close()
    assert log.size_bytes > 2_000_000
    file = place.filesystem.open(f"{place.directory}/{LOG}")
    lengths: list[int] = []
    real = type(file).read

    def counted(self: File, position: int, length: int) -> bytes:
        lengths.append(length)
        return real(self, position, length)

    log = Log.open(place.filesystem, place.directory)
    monkeypatch.setattr(type(file), "read", counted)
    for offset in range(0, log.log_end_offset, 777):
        lengths.clear()
        log.read(offset, 1000)
        assert sum(lengths) < 64 << 10
        lengths.clear()
        log.read(offset, 100_000)
        assert sum(lengths) < 164 << 10
    lengths.clear()
    sum(len(chunk) for chunk in log.chunks(chunk_bytes=100_000))
    assert max(lengths) <= 100_000
    assert sum(lengths) < 1.5 * log.size_bytes


def test_index_entries_are_written_before_there_are_many(memory: Place) -> None:
    # Entries are kept in memory for some time only, so the file of an active segment grows, too.
    log = Log.open(memory.filesystem, memory.directory, LogConfig(index_interval_bytes=1))
    for _ in range(600):
        log.append(batch(b"x"))
    index = OffsetIndex(log._files, "/data/00000000000000000000.index")
    assert index.load()
    assert len(index) == 512


def test_a_log_without_segments_is_damaged_if_it_was_synced(memory: Place) -> None:
    filled(memory, 3).close()
    for name in memory.names():
        memory.filesystem.remove(f"{memory.directory}/{name}")
    with pytest.raises(CorruptLog, match="there are no segments, but the log was synced up to 3"):
        Log.open(memory.filesystem, memory.directory, recovery_point=3)
    # Deleted records leave no segment, and their start may be lost with the power.
    for start, trust in ((3, TailTrust.POWER_LOST), (0, TailTrust.POWER_LOST_UNSYNCED)):
        log = Log.open(
            memory.filesystem,
            memory.directory,
            log_start_offset=start,
            recovery_point=3,
            trust=trust,
        )
        assert (log.log_start_offset, log.log_end_offset, log.synced_offset) == (3, 3, 3)
        memory.filesystem.remove(log.segments[0].path)
