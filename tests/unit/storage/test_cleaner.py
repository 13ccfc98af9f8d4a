"""The rules of compaction: what stays, what is removed, and when a cleaning is due."""

from sys import getsizeof

import pytest

from coterie.protocol.control_records import encode_marker
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON
from coterie.protocol.record_writer import encode_legacy
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    Record,
    decode_records,
    encode_batch,
    encode_records,
    iterate_batches,
)
from coterie.storage.cleanable import CleanerConfig, cleanable
from coterie.storage.cleaner import clean, grouped
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.offset_map import MAX_ENTRY_BYTES, OffsetMap
from coterie.storage.producer_state import CompletedTransaction
from tests.record_batches import committed
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_golden_segments import copied

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 3600 * 1000
CONFIG = CleanerConfig(segment_bytes=1 << 20)


def opened(place: Place, filesystem: FileSystem | None = None, segment_bytes: int = 1000) -> Log:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100, compacted=True)
    return Log.open(filesystem or place.filesystem, place.directory, config)


def pair(log: Log, key: bytes, value: bytes | None, timestamp_ms: int = NOW_MS) -> None:
    log.append(encode_batch([(key, value)], log.log_end_offset, timestamp_ms))


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    return [
        (header, decode_records(chunk, header, position))
        for chunk in log.chunks()
        for position, header in iterate_batches(chunk)
    ]


def left(log: Log) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for _, records in batches_of(log) for each in records]


def bytes_of(log: Log) -> bytes:
    return b"".join(log.chunks())


def test_the_newest_record_of_each_key_stays_at_its_offset(place: Place) -> None:
    log = opened(place)
    for number in range(60):
        pair(log, b"key %d" % (number % 7), b"value %d" % number)
    log.roll()
    result = clean(log, 0, NOW_MS, CONFIG)
    assert result is not None
    assert left(log) == [(number, b"value %d" % number) for number in range(53, 60)]
    assert (log.log_start_offset, log.log_end_offset) == (0, 60)
    assert (result.first_dirty_offset, result.records_kept) == (60, 7)
    assert result.segments_before > 3
    assert result.segments_after == len(log.segments) == 2
    for offset in (0, 30, 53, 55, 59):
        assert decode_first(log, offset) == max(offset, 53)
    assert log.append(encode_batch([(b"k", b"v")], 60, NOW_MS)) == 60
    log.close()
    again = opened(place)
    assert [offset for offset, _ in left(again)] == list(range(53, 61))


def decode_first(log: Log, offset: int) -> int:
    data = log.read(offset, 1)
    _, header = next(iterate_batches(data))
    return header.base_offset


def test_the_active_segment_is_never_touched(place: Place) -> None:
    log = opened(place, segment_bytes=1 << 20)
    for _ in range(5):
        pair(log, b"key", b"value")
    assert clean(log, 0, NOW_MS, CONFIG) is None
    before = bytes_of(log)
    assert not cleanable(log, 0, NOW_MS, CONFIG).due
    assert bytes_of(log) == before


def test_a_record_in_the_active_segment_supersedes_nothing_yet(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"old")
    log.roll()
    pair(log, b"key", b"new")
    clean(log, 0, NOW_MS, CONFIG)
    assert left(log) == [(0, b"old"), (1, b"new")]


def test_a_tombstone_stays_delete_retention_ms_after_the_first_cleaning(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"value")
    pair(log, b"key", None, NOW_MS + 5)
    log.roll()
    result = clean(log, 0, NOW_MS + 10, CONFIG)
    assert result is not None
    assert result.tombstones_kept == 1
    ((header, records),) = batches_of(log)
    assert header.attributes & HAS_DELETE_HORIZON
    assert header.base_timestamp_ms == NOW_MS + 10 + DAY_MS
    assert records == [Record(1, NOW_MS + 5, b"key", None)]
    for now_ms, expected in ((NOW_MS + 9 + DAY_MS, [1]), (NOW_MS + 10 + DAY_MS, [])):
        dirty = log.log_end_offset
        pair(log, b"other", b"%d" % now_ms)
        log.roll()
        clean(log, dirty, now_ms, CONFIG)
        assert [record.offset for _, each in batches_of(log) for record in each][:-1] == expected
        assert batches_of(log)[0][0].base_offset == (1 if expected else dirty)


def test_a_batch_whose_records_all_stay_is_copied_byte_for_byte(place: Place) -> None:
    log = opened(place)
    for codec in Compression:
        records = [Record(at, NOW_MS + at, b"%d-%d" % (codec, at), b"v" * 50) for at in range(5)]
        log.append(encode_records(records, compression=codec, producer_id=5, base_sequence=0))
    before = bytes_of(log)
    log.roll()
    pair(log, b"active", b"")
    clean(log, 0, NOW_MS, CONFIG)
    assert bytes_of(log).startswith(before)


@pytest.mark.parametrize("codec", Compression)
def test_a_shrunken_batch_keeps_codec_timestamps_and_headers(
    place: Place, codec: Compression
) -> None:
    log = opened(place)
    records = [
        Record(at, NOW_MS - 7 * at, b"%d" % (at % 3), b"v" * 90, (("name", b"%d" % at),))
        for at in range(6)
    ]
    log.append(encode_records(records, compression=codec, producer_id=9, producer_epoch=1,
                              base_sequence=40))  # fmt: skip
    log.roll()
    clean(log, 0, NOW_MS, CONFIG)
    ((header, kept),) = batches_of(log)
    assert kept == records[3:]
    assert (header.base_offset, header.last_offset, header.compression) == (0, 5, codec)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 1, 45)
    assert header.max_timestamp_ms == NOW_MS - 21


def test_records_without_a_key_are_removed(place: Place) -> None:
    log = opened(place)
    log.append(encode_records([Record(0, NOW_MS, None, b"x"), Record(1, NOW_MS, b"k", b"y")]))
    log.roll()
    clean(log, 0, NOW_MS, CONFIG)
    assert left(log) == [(1, b"y")]


def transactional(log: Log, key: bytes, value: bytes, producer_id: int = 1) -> None:
    record = Record(log.log_end_offset, NOW_MS, key, value)
    log.append(encode_records([record], producer_id=producer_id, producer_epoch=0,
                              base_sequence=log.log_end_offset, transactional=True))  # fmt: skip


def marker(log: Log, *, commit: bool, producer_id: int = 1) -> None:
    log.append(encode_marker(log.log_end_offset, NOW_MS, producer_id, 0, commit=commit))


def test_records_of_aborted_transactions_are_removed_and_later_their_markers(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"old")
    transactional(log, b"key", b"aborted")
    marker(log, commit=False)
    log.roll()
    later_ms = NOW_MS + 10 * DAY_MS
    dirty = 0
    seen = []
    for now_ms in (later_ms, later_ms, later_ms + DAY_MS, later_ms + DAY_MS):
        log.producers.expire(now_ms, DAY_MS, 10)
        result = clean(log, dirty, now_ms, CONFIG)
        assert result is not None
        dirty = result.first_dirty_offset
        seen.append([header.base_offset for header, _ in batches_of(log) if header.is_control])
        assert left(log)[0] == (0, b"old")
        assert b"aborted" not in bytes_of(log)
        pair(log, b"other", b"")
        log.roll()
    # The first cleaning reads the marker with its transaction, the second one without it and sets
    # the horizon, and the third one, after the horizon, removes it.
    assert seen == [[2], [2], [], []]


def test_cleaning_ends_before_an_open_transaction(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"1")
    pair(log, b"key", b"2")
    transactional(log, b"key", b"3")
    pair(log, b"key", b"4")
    log.roll()
    result = clean(log, 0, NOW_MS, CONFIG)
    assert result is not None
    assert result.first_dirty_offset == 2
    assert [value for _, value in left(log)][:3] == [b"2", b"3", b"4"]
    # Nothing more can be cleaned, so no cleaning is due.
    assert not cleanable(log, 2, NOW_MS, CONFIG).due
    marker(log, commit=True)
    log.roll()
    result = clean(log, 2, NOW_MS, CONFIG)
    assert result is not None
    assert result.first_dirty_offset == 5
    assert left(log)[0] == (3, b"4")


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_that_ended_in_the_active_segment_is_cleaned(
    place: Place, commit: bool
) -> None:
    log = opened(place)
    pair(log, b"key", b"old")
    transactional(log, b"key", b"new")
    log.roll()
    marker(log, commit=commit)
    result = clean(log, 0, NOW_MS, CONFIG)
    assert result is not None
    assert result.first_dirty_offset == 2
    assert left(log)[0] == ((1, b"new") if commit else (0, b"old"))


@pytest.mark.parametrize("commit", [True, False])
def test_wrong_transaction_index_ends_the_cleaning(memory: Place, commit: bool) -> None:
    log = opened(memory)
    pair(log, b"key", b"old")
    transactional(log, b"key", b"new")
    marker(log, commit=commit)
    log.roll()
    before = bytes_of(log)
    index = next(log.transactions_from(2))
    index.replace([CompletedTransaction(1, 1, 2, 3)] if commit else [])
    with pytest.raises(CorruptLog, match=r"txnindex.*contradicts the marker at 2"):
        clean(log, 0, NOW_MS, CONFIG)
    assert bytes_of(log) == before


def test_the_last_batch_of_an_active_producer_is_kept_empty(place: Place) -> None:
    log = opened(place)
    record = Record(0, NOW_MS, b"key", b"idempotent")
    log.append(encode_records([record], producer_id=3, producer_epoch=2, base_sequence=11))
    pair(log, b"key", b"newer")
    log.roll()
    clean(log, 0, NOW_MS, CONFIG)
    (empty, none), (_, kept) = batches_of(log)
    assert none == []
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (3, 2, 11)
    assert [each.value for each in kept] == [b"newer"]
    pair(log, b"other", b"")
    log.roll()
    log.producers.expire(NOW_MS + 2 * DAY_MS, DAY_MS, 10)
    clean(log, 2, NOW_MS + 2 * DAY_MS, CONFIG)
    assert [header.producer_id for header, _ in batches_of(log)] == [-1, -1]


def test_the_last_marker_of_an_active_producer_is_kept_empty(place: Place) -> None:
    log = opened(place)
    # The transaction has data in other partitions only.
    marker(log, commit=True)
    log.roll()
    dirty = 0
    config = CONFIG._replace(delete_retention_ms=0)
    # The first two cleanings keep the marker for its horizon, the third one only its batch.
    for now_ms in (NOW_MS, NOW_MS + 10, NOW_MS + 20):
        pair(log, b"other", b"")
        log.roll()
        result = clean(log, dirty, now_ms, config)
        assert result is not None
        dirty = result.first_dirty_offset
        (control,) = [each for each in batches_of(log) if each[0].is_control]
    assert (control[0].producer_id, control[0].base_offset, control[1]) == (1, 0, [])
    pair(log, b"other", b"")
    log.roll()
    log.producers.expire(NOW_MS + 2000, 1000, 10)
    clean(log, dirty, NOW_MS + 2000, config)
    assert not [each for each in batches_of(log) if each[0].is_control]


def test_each_record_counts_once_as_read(place: Place) -> None:
    log = opened(place)
    dirty = 0
    for number in range(3):
        for at in range(30):
            pair(log, b"%d" % (at % 9), b"%d" % number)
            keys = [b"%d" % (at % 4), b"x", b"%d" % at]
            log.append(encode_records([Record(n, NOW_MS, key, b"") for n, key in enumerate(keys)]))
        pair(log, b"tombstone", None)
        log.roll()
        present = len(left(log))
        result = clean(log, dirty, NOW_MS, CONFIG)
        assert result is not None
        assert (result.records_read, result.records_kept) == (present, len(left(log)))
        assert result.tombstones_kept == 1
        dirty = result.first_dirty_offset


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> list[OffsetMap]:
    """The maps of all cleanings, in order."""
    made: list[OffsetMap] = []

    class RecordedMap(OffsetMap):
        def __init__(self, max_bytes: int) -> None:
            super().__init__(max_bytes)
            made.append(self)

    monkeypatch.setattr("coterie.storage.dirty_part.OffsetMap", RecordedMap)
    return made


def test_the_next_cleaning_continues_where_the_map_was_full(
    place: Place, maps: list[OffsetMap]
) -> None:
    log = opened(place)
    for number in range(400):
        pair(log, b"key %d" % (number % 200), b"value %d" % number)
    log.roll()
    config = CONFIG._replace(max_map_bytes=5000, slice_bytes=500)
    dirty, rounds = 0, 0
    while result := clean(log, dirty, NOW_MS, config):
        assert result.map_full or result.first_dirty_offset == 400
        assert maps[-1].used_bytes < 5000 + 500 // 68 * MAX_ENTRY_BYTES + 100
        assert result.first_dirty_offset > dirty
        dirty = result.first_dirty_offset
        rounds += 1
    assert rounds > 5
    assert [offset for offset, _ in left(log)] == list(range(200, 400))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("key_bytes", [4, 2000])
def test_hostile_keys_do_not_break_the_bound_of_the_map(
    place: Place, maps: list[OffsetMap], codec: Compression, key_bytes: int
) -> None:
    log = opened(place, segment_bytes=1 << 20)
    keys = [b"%0*d" % (key_bytes, at % 900) for at in range(1000)]
    records = [Record(at, NOW_MS, key, b"%d" % at) for at, key in enumerate(keys)]
    log.append(encode_records(records, compression=codec))
    log.roll()
    config = CONFIG._replace(max_map_bytes=100_000)
    dirty = 0
    while result := clean(log, dirty, NOW_MS, config):
        assert maps[-1].used_bytes <= 100_000
        dirty = result.first_dirty_offset
    assert [offset for offset, _ in left(log)] == list(range(100, 1000))


def test_messages_of_magic_0_and_1_are_cleaned(place: Place) -> None:
    old = [Record(at, NOW_MS, b"%d" % (at % 2), b"%d" % at) for at in range(6)]
    messages = [encode_legacy(each, each.offset % 2) for each in old]
    place.write(f"{0:020d}.log", b"".join(messages))
    place.write(f"{6:020d}.log", b"")
    log = opened(place)
    clean(log, 0, NOW_MS, CONFIG)
    assert left(log) == [(4, b"4"), (5, b"5")]


@pytest.mark.parametrize("name", ["txn", "offsets"])
def test_transactions_that_kafka_wrote_are_cleaned(name: str) -> None:
    place = copied(name)
    log = opened(place)
    before = left(log)
    log.roll()
    aborted = {b"aborted"} if name == "txn" else set()
    readable = committed(log, 0)
    log.producers.expire(NOW_MS, 0, 10)
    clean(log, 0, NOW_MS, CONFIG)
    after = left(log)
    assert set(after) < set(before)
    assert not aborted & {value for _, value in after}
    assert set(committed(log, 0)) <= set(readable)
    log.close()
    log = opened(place)
    assert left(log) == after
    assert set(committed(log, 0)) <= set(readable)
    # Nothing is left of the aborted transactions, so a second cleaning removes their entries.
    clean(log, 0, NOW_MS, CONFIG)
    assert f"{0:020d}.txnindex" not in place.names()
    assert left(log) == after


# --- when to clean, and which segments together ---------------------------------------------------


def filled(place: Place, segments: int = 4) -> Log:
    log = opened(place)
    for number in range(segments):
        for _ in range(5):
            pair(log, b"key", b"value %d" % number, NOW_MS + 1000 * number)
        log.roll()
    return log


def test_a_cleaning_is_due_from_the_dirty_ratio_on(place: Place) -> None:
    log = filled(place)
    found = cleanable(log, 10, NOW_MS, CONFIG)
    assert (found.end_offset, found.clean_bytes, found.dirty_bytes) == (
        20,
        found.dirty_bytes,
        found.clean_bytes,
    )
    assert (found.dirty_ratio, found.due) == (0.5, True)
    assert not cleanable(log, 15, NOW_MS, CONFIG).due
    assert not cleanable(log, 20, NOW_MS, CONFIG._replace(min_cleanable_ratio=0)).due
    assert cleanable(log, 10_000, NOW_MS, CONFIG).first_dirty_offset == 0


def test_min_compaction_lag_keeps_young_segments(place: Place) -> None:
    log = filled(place)
    config = CONFIG._replace(min_compaction_lag_ms=2000)
    assert cleanable(log, 0, NOW_MS + 3999, config).end_offset == 10
    assert cleanable(log, 0, NOW_MS + 4000, config).end_offset == 15
    assert cleanable(log, 0, NOW_MS, config).end_offset == 0


def test_max_compaction_lag_overrides_the_dirty_ratio(place: Place) -> None:
    log = filled(place)
    log.close()
    log = opened(place)
    config = CONFIG._replace(max_compaction_lag_ms=5000)
    assert not cleanable(log, 15, NOW_MS + 8000, config).must_clean
    found = cleanable(log, 15, NOW_MS + 8001, config)
    assert (found.must_clean, found.due) == (True, True)


def test_segments_are_grouped_by_size_and_offsets(place: Place) -> None:
    segments = filled(place).segments[:4]
    size = segments[0].size
    assert [len(each) for each in grouped(segments, 10 * size)] == [4]
    assert [len(each) for each in grouped(segments, 2 * size)] == [2, 2]
    assert [len(each) for each in grouped(segments, 1)] == [1, 1, 1, 1]
    segments[3].next_offset = (1 << 31) + 1
    assert [len(each) for each in grouped(segments, 10 * size)] == [3, 1]


def test_the_map_measures_its_memory() -> None:
    offset_map = OffsetMap(10_000)
    offset_map.reach(100)
    offset_map.add([b"a" * 40] * 5, 0)
    # The headers of a key and of a number are longer in free-threaded Python.
    entry = 33 + 15 + 122 + 2 * (getsizeof(b"") - 33)
    assert offset_map.used_bytes == 2 + 40 + entry
    offset_map.add([b"b" * 5000, None], 100)
    assert offset_map.used_bytes == 2 + 40 + entry + 64 + entry
