"""Random operations on a compacted log, on a file system in memory, against a model.

The model keeps every record that was appended, and the state of a reader that applies transactions.
Whatever is cleaned, when and how often: loading the log gives the state of the model, the records
that are left have the offsets and timestamps that they were written with, and no record that has to
stay is missing [compaction/newest-record].
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.protocol.control_records import encode_marker
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON
from coterie.protocol.records import (
    Compression,
    Record,
    decode_records,
    encode_records,
    iterate_batches,
    read_marker,
)
from coterie.storage.cleanable import CleanerConfig, cleanable
from coterie.storage.cleaner import Cleaning, CleaningResult
from coterie.storage.dirty_part import DirtyPart
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.offset_map import OffsetMap
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_state import ProducerState
from coterie.storage.retained import BatchFilter
from tests.record_batches import committed

DIRECTORY = "/data"
KEYS = [b"a", b"b", b"c", b"d" * 63, b"e" * 64, b"e" * 63 + b"f", b"g" * 300, b"", None]
RETENTION_MS = 100

Step = tuple[Any, ...]

_records = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([0, 0, 3, 90]), st.booleans()),
    min_size=1,
    max_size=5,
)
_codecs = st.sampled_from([Compression.NONE] * 6 + list(Compression))
_steps = st.one_of(
    st.tuples(st.just("append"), _records, _codecs, st.sampled_from([-1, -1, 7, 8])),
    st.tuples(st.just("append"), _records, _codecs, st.sampled_from([-1, -1, 7, 8])),
    st.tuples(st.just("transact"), _records, _codecs, st.sampled_from([1, 2])),
    st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1, 40, 101])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("delete"), st.floats(0, 1)),
    st.tuples(st.just("expire"), st.sampled_from([(60, -1), (-1, 500), (60, 1200), (-1, 0)])),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("clean")),
    st.tuples(st.just("begin cleaning")),
    st.tuples(st.just("go on"), st.integers(1, 6)),
)
_configs = st.builds(
    CleanerConfig,
    delete_retention_ms=st.just(RETENTION_MS),
    min_compaction_lag_ms=st.sampled_from([0, 0, 50]),
    max_compaction_lag_ms=st.just(1 << 40),
    min_cleanable_ratio=st.just(0.5),
    segment_bytes=st.sampled_from([300, 900, 1 << 20]),
    max_map_bytes=st.sampled_from([400, 1000, 1 << 20]),
    slice_bytes=st.sampled_from([1, 200, 1 << 16]),
)


class CompactedLog:
    """A log, every record that was ever appended, and what a reader must find."""

    def __init__(
        self, config: CleanerConfig, segment_bytes: int, expiration_ms: int = 1000
    ) -> None:
        self.filesystem = MemoryFileSystem()
        self.filesystem.make_directory(DIRECTORY)
        self.config = config
        self.log_config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=100,
            compacted=True,
            producer_expiration_ms=expiration_ms,
        )
        self.now_ms = 1_000_000
        self.first_dirty = 0
        self.cleaning: Cleaning | None = None
        # Each record by offset, with its producer if it is part of a transaction.
        self.appended: dict[int, tuple[Record, int | None]] = {}
        # Each marker by offset: the producer, and whether it commits.
        self.markers: dict[int, tuple[int, bool]] = {}
        self.sequences: dict[int, int] = {}
        # By producer: the offset of the last record, and when the producer was active.
        self.newest: dict[int, int] = {}
        self.seen_ms: dict[int, int] = {}
        # By producer: where the open transaction begins.
        self.ongoing: dict[int, int] = {}
        self.log = self.opened(log_start_offset=0)

    def opened(self, log_start_offset: int) -> Log:
        log = Log.open(
            self.filesystem,
            DIRECTORY,
            self.log_config,
            files=OpenFiles(self.filesystem, limit=3),
            log_start_offset=log_start_offset,
            now_ms=self.now_ms,
        )
        # The expiration is shorter than the time that a start gives each producer. Producers that
        # have expired may be in the snapshot.
        known = {entry.producer_id for entry in log.producers}
        assert known >= self.seen_ms.keys()
        self.seen_ms = dict.fromkeys(known, self.now_ms)
        return log

    def append(
        self,
        values: list[tuple[bytes | None, int, bool]],
        codec: Compression,
        producer: int,
        *,
        transactional: bool = False,
    ) -> None:
        base_offset = self.log.log_end_offset
        records = []
        for at, (key, later_ms, tombstone) in enumerate(values):
            offset = base_offset + at
            value = None if tombstone else b"value %d" % offset
            headers = (("h", b"x"),) if offset % 3 == 0 else ()
            records.append(Record(offset, self.now_ms + later_ms, key, value, headers))
        sequence = self.sequences.get(producer, 0)
        idempotent = producer >= 0
        self.log.append(
            encode_records(
                records,
                compression=codec,
                producer_id=producer,
                producer_epoch=0 if idempotent else -1,
                base_sequence=sequence if idempotent else -1,
                transactional=transactional,
            ),
            self.now_ms,
        )
        if idempotent:
            self.sequences[producer] = sequence + len(records)
            self.newest[producer] = self.log.log_end_offset - 1
            self.seen_ms[producer] = self.now_ms
        if transactional:
            self.ongoing.setdefault(producer, base_offset)
        for record in records:
            self.appended[record.offset] = (record, producer if transactional else None)

    def end(self, producer: int, commit: bool) -> None:
        offset = self.log.log_end_offset
        self.log.append(encode_marker(offset, self.now_ms, producer, 0, commit=commit), self.now_ms)
        self.markers[offset] = (producer, commit)
        self.seen_ms[producer] = self.now_ms
        self.ongoing.pop(producer, None)

    def expire(self) -> None:
        expiration_ms = self.log_config.producer_expiration_ms
        self.log.producers.expire(self.now_ms, expiration_ms, 100)
        self.seen_ms = {
            producer: seen_ms
            for producer, seen_ms in self.seen_ms.items()
            if self.now_ms - seen_ms < expiration_ms or producer in self.ongoing
        }

    def begin(self) -> None:
        if self.cleaning is None:
            found = cleanable(self.log, self.first_dirty, self.now_ms, self.config)
            self.cleaning = Cleaning(self.log, found, self.now_ms, self.config)

    def go_on(self, steps: int) -> None:
        if self.cleaning is None:
            return
        for _ in range(steps):
            try:
                step = next(iter(self.cleaning))
            except StopIteration:
                result: CleaningResult = self.cleaning.result
                if not result.abandoned:
                    assert result.first_dirty_offset >= self.first_dirty
                    self.first_dirty = result.first_dirty_offset
                self.cleaning = None
                return
            if step.pending is not None:
                step.pending.run()

    def delete(self, part: float) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.log.delete_records(start + round(part * (end - start)))

    def step(self, verb: str, *arguments: Any) -> None:
        if verb == "append":
            self.append(*arguments)
        elif verb == "transact":
            self.append(*arguments, transactional=True)
        elif verb == "end":
            self.end(*arguments)
        elif verb == "wait":
            self.now_ms += arguments[0]
            self.expire()
        elif verb == "roll":
            self.log.roll()
        elif verb == "delete":
            self.delete(*arguments)
        elif verb == "expire":
            self.log.remove_expired(self.now_ms, *arguments[0])
        elif verb == "reopen":
            if self.cleaning is not None:
                self.cleaning.abandon()
                self.cleaning = None
            self.log.close()
            self.log = self.opened(self.log.log_start_offset)
        elif verb == "begin cleaning":
            self.begin()
        elif verb == "go on":
            self.go_on(*arguments)
        elif verb == "clean":
            self.begin()
            self.go_on(1_000_000)
            assert self.cleaning is None
            assert not [n for n in self.filesystem.list(DIRECTORY) if n[-5:] in ("eaned", ".swap")]
        self.check()

    def check(self) -> None:
        start = self.log.log_start_offset
        found: dict[int, Record] = {}
        markers: set[int] = set()
        tail: dict[int, int] = {}
        expected_offset = 0
        # Chunks cross the ends of segments, and small ones need the index.
        for chunk in self.log.chunks(chunk_bytes=250):
            for position, header in iterate_batches(chunk):
                assert header.base_offset >= expected_offset
                expected_offset = header.next_offset
                records = decode_records(chunk, header, position)
                if header.is_control:
                    markers.update(each.offset for each in records if read_marker(each))
                    continue
                if header.producer_id >= 0:
                    tail[header.producer_id] = header.last_offset
                    assert header.last_sequence >= 0
                for record in records:
                    found[record.offset] = record
                if header.attributes & HAS_DELETE_HORIZON:
                    assert header.base_timestamp_ms <= self.now_ms + RETENTION_MS
        for offset, record in found.items():
            assert record == self.appended[offset][0], offset
        assert loaded(found, self.markers_of(markers), self) == self.expected(start)
        assert {entry.producer_id for entry in self.log.producers} == set(self.seen_ms)
        for producer in self.seen_ms:
            newest = self.newest.get(producer, -1)
            if newest >= start:
                assert tail.get(producer) == newest, "the last batch of a producer is kept"
        stable = max(min(self.ongoing.values(), default=self.log.log_end_offset), start)
        assert self.log.last_stable_offset == stable
        outcomes = self.outcomes()
        expected = [at for at in sorted(found) if start <= at < stable and outcomes.get(at, True)]
        for offset in (start, (start + stable) // 2):
            assert [at for at in committed(self.log, offset) if at >= offset] == [
                at for at in expected if at >= offset
            ]

    def outcomes(self) -> dict[int, bool]:
        """Return for each record of an ended transaction whether it was committed."""
        outcomes: dict[int, bool] = {}
        pending: dict[int, list[int]] = {}
        for offset in sorted(self.appended.keys() | self.markers.keys()):
            if offset in self.markers:
                producer, commit = self.markers[offset]
                outcomes.update(dict.fromkeys(pending.pop(producer, ()), commit))
            elif (producer_or_none := self.appended[offset][1]) is not None:
                pending.setdefault(producer_or_none, []).append(offset)
        return outcomes

    def markers_of(self, offsets: set[int]) -> dict[int, tuple[int, bool]]:
        return {each: self.markers[each] for each in offsets}

    def expected(self, start: int) -> dict[bytes, bytes]:
        kept = {at: record for at, (record, _) in self.appended.items() if at >= start}
        return loaded(kept, {at: end for at, end in self.markers.items() if at >= start}, self)


def loaded(
    found: dict[int, Record], markers: dict[int, tuple[int, bool]], model: CompactedLog
) -> dict[bytes, bytes]:
    """Return the state of a reader of these records that applies transactions at their markers."""
    state: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, list[Record]] = {}
    start = model.log.log_start_offset

    def apply(record: Record) -> None:
        if record.key is None:
            return
        offset, _ = state.get(record.key, (-1, None))
        if offset < record.offset:
            state[record.key] = (record.offset, record.value)

    for offset in sorted(found.keys() | markers.keys()):
        if offset in markers:
            producer, commit = markers[offset]
            records = pending.pop(producer, [])
            for record in records if commit else []:
                apply(record)
        elif offset >= start:
            _, producer_or_none = model.appended[offset]
            if producer_or_none is None:
                apply(found[offset])
            else:
                pending.setdefault(producer_or_none, []).append(found[offset])
    result = {key: value for key, (_, value) in state.items() if value is not None}
    # All records of open transactions must be there.
    for producer, records in pending.items():
        for record in records:
            result[b"open %d %d" % (producer, record.offset)] = record.value or b"(null)"
    return result


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    _configs,
    st.sampled_from([150, 400, 1 << 20]),
    st.sampled_from([30, 1000]),
    st.lists(_steps, max_size=40),
)
def test_a_cleaned_log_loads_like_the_log_before(
    config: CleanerConfig, segment_bytes: int, expiration_ms: int, steps: list[Step]
) -> None:
    model = CompactedLog(config, segment_bytes, expiration_ms)
    for step in steps:
        model.step(*step)
    settle(model)


def settle(model: CompactedLog) -> None:
    """Clean until nothing is left to clean, and again after all horizons have passed."""
    for producer in (1, 2):
        model.end(producer, commit=True)
    for _ in range(3):
        # As in Kafka, a log is only cleaned if there is something new.
        model.append([(b"z", 0, False)], Compression.NONE, -1)
        model.log.roll()
        # This is longer than any lag of the configurations.
        model.now_ms += RETENTION_MS + 1
        before = -1
        while before < model.first_dirty:
            before = model.first_dirty
            model.step("clean")
    keys = []
    for chunk in model.log.chunks(model.log.log_start_offset):
        for position, header in iterate_batches(chunk):
            for record in decode_records(chunk, header, position):
                if record.offset < model.first_dirty and not header.is_control:
                    keys.append(record.key)
                    assert record.value is not None, "a tombstone is removed after its horizon"
    assert len(keys) == len(set(keys)), "one record of each key is left"
    assert None not in keys, "records without a key are removed"
    model.step("reopen")


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "keys are cut": lambda patch: patch.setattr(
        "coterie.storage.offset_map.map_key", lambda key: key[:63]
    ),
    "open transactions are forgotten": lambda patch: patch.setattr(
        ProducerState, "first_unstable_offset", None
    ),
    "aborted transactions are kept": lambda patch: patch.setattr(
        DirtyPart, "is_aborted", lambda *_: False
    ),
    "all transactions are aborted": lambda patch: patch.setattr(
        DirtyPart, "is_aborted", lambda *_: True
    ),
    "cleaned segments have no transaction index": lambda patch: patch.setattr(
        BatchFilter, "_keep_aborted", lambda *_: None
    ),
    "only batches with newest records are marked": lambda patch: patch.setattr(
        OffsetMap, "mark", lambda *_: None
    ),
    "horizons never pass": lambda patch: patch.setattr(
        BatchFilter, "_horizon_has_passed", lambda *_: False
    ),
    "every marker is orphaned": lambda patch: patch.setattr(
        BatchFilter, "_is_orphaned_marker", lambda *_: True
    ),
    "no batch is kept empty": lambda patch: patch.setattr(
        BatchFilter, "_stays_empty", lambda *_: False
    ),
}  # fmt: skip


def eventful_run() -> CompactedLog:
    """Run operations of every kind that a planted bug may affect."""
    none, values = Compression.NONE, [(b"a", 0, False), (b"e" * 64, 0, False)]
    model = CompactedLog(CleanerConfig(delete_retention_ms=RETENTION_MS), 2000)
    steps: list[Step] = [
        ("append", [*values, (b"e" * 63 + b"f", 0, False)], none, -1),
        ("transact", [(b"a", 0, False)], none, 1),
        ("transact", [(b"b", 0, False), (b"c", 0, False)], none, 2),
        ("transact", [(b"a", 0, False)], none, 1),
        ("end", 1, False),
        ("append", [(b"c", 0, True)], none, 7),
        ("roll",),
        ("clean",),
        ("end", 2, True),
        ("append", [(b"c", 0, True), (b"b", 3, False)], none, -1),
        ("roll",),
        ("clean",),
        ("append", [(b"a", 0, False), (b"t", 0, True)], none, -1),
        ("transact", [(b"c", 0, False)], Compression.LZ4, 1),
        ("roll",),
        ("clean",),
        ("end", 1, True),
    ]
    for step in steps:
        model.step(*step)
    settle(model)
    return model


def test_every_kind_of_event_occurs_in_one_run() -> None:
    model = eventful_run()
    assert model.first_dirty == model.log.log_end_offset
    left = [
        record.key
        for chunk in model.log.chunks()
        for position, header in iterate_batches(chunk)
        for record in decode_records(chunk, header, position)
        if not header.is_control
    ]
    assert left == [b"e" * 64, b"e" * 63 + b"f", b"b", b"a", b"c", b"z"]


@pytest.mark.parametrize("bug", PLANTED)
def test_the_model_catches_planted_bugs(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canaries: each of these bugs makes the model fail."""
    PLANTED[bug](monkeypatch)
    with pytest.raises(AssertionError):
        eventful_run()
