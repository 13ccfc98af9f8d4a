"""Pending offsets: the offsets of transactions that have not ended.

A log is applied in three ways: record by record, by the reader of a load, and by a model that keeps
the log offset of each commit as Kafka does. All of them agree, also in what follows.

Rules: [offsets/expiry].
"""

from pathlib import Path
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.groups.replay import (
    LoggedState,
    replay,
    replay_encoded,
    replay_marker,
    replay_pending,
)
from coterie.coordinator.kernel.append import BatchForm
from coterie.coordinator.kernel.loading import NewestRecords
from coterie.protocol.control_records import encode_marker, marker_pair, read_marker
from coterie.protocol.messages.log_records import (
    GROUP_RECORDS,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.records import decode_records, encode_batch, iterate_batches
from tests.unit.coordinator.harness import START_MS

# Group, topic, partition.
Place = tuple[str, str, int]
# By place: the committed offset; by producer id, then by place: the pending one.
Committed = dict[Place, int]
Pending = dict[int, dict[Place, int]]


class Step(NamedTuple):
    """A record of a log, or a marker if it has no place.

    Attributes:
        place: of the offset.
        producer: -1 outside of transactions.
        deletes: whether the record is a tombstone.
        commit: of a marker.
    """

    place: Place | None
    producer: int = -1
    deletes: bool = False
    commit: bool = False


PLACES = st.tuples(st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]), st.integers(0, 1))
PRODUCERS = st.integers(1, 3)
STEPS = st.one_of(
    PLACES.map(Step),
    PLACES.map(lambda place: Step(place, deletes=True)),
    st.tuples(PLACES, PRODUCERS).map(lambda drawn: Step(*drawn)),
    st.tuples(PLACES, PRODUCERS).map(lambda drawn: Step(*drawn)),
    st.tuples(PRODUCERS, st.booleans()).map(lambda drawn: Step(None, drawn[0], commit=drawn[1])),
)


class Model:
    """What a partition holds, with the log offset of every commit."""

    def __init__(self) -> None:
        self.committed: dict[Place, tuple[int, int]] = {}
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {}

    def apply(self, step: Step, at: int) -> None:
        """Apply a step; the offset that it commits is that of its record."""
        if step.place is None:
            for place, value in self.pending.pop(step.producer, {}).items():
                if step.commit and self.committed.get(place, (-1, -1)) < value:
                    self.committed[place] = value
        elif step.deletes:
            self.committed.pop(step.place, None)
            for places in self.pending.values():
                places.pop(step.place, None)
        elif step.producer >= 0:
            self.pending.setdefault(step.producer, {})[step.place] = (at, at)
        else:
            self.committed[step.place] = (at, at)

    def state(self) -> tuple[Committed, Pending]:
        committed = {place: value for place, (_, value) in self.committed.items()}
        pending = {
            producer: {place: value for place, (_, value) in places.items()}
            for producer, places in self.pending.items()
            if places
        }
        return committed, pending


def key_of(place: Place) -> OffsetCommitKey:
    group, topic, index = place
    return OffsetCommitKey(group=group, topic=topic, partition=index)


def value_of(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=START_MS)


def apply(state: LoggedState, step: Step, at: int) -> None:
    if step.place is None:
        replay_marker(state, step.producer, commit=step.commit)
    elif step.deletes:
        replay(state, (key_of(step.place), None))
    elif step.producer >= 0:
        assert replay_pending(state, step.producer, 0, (key_of(step.place), value_of(at)))
    else:
        replay(state, (key_of(step.place), value_of(at)))


def batch_of(step: Step, at: int) -> bytes:
    if step.place is None:
        return encode_marker(at, START_MS, step.producer, 0, commit=step.commit)
    key = encode_key(key_of(step.place))
    value = None if step.deletes else encode_value(value_of(at))
    if step.producer < 0:
        return encode_batch([(key, value)], at, START_MS)
    return encode_batch(
        [(key, value)],
        at,
        START_MS,
        attributes=TRANSACTIONAL,
        producer_id=step.producer,
        producer_epoch=0,
    )


def loaded(steps: list[Step]) -> LoggedState:
    """Return the state that a load of a log gives."""
    reader = NewestRecords(GROUP_RECORDS)
    for at, step in enumerate(steps):
        reader.add_batches(batch_of(step, at))
    return state_of(reader)


def state_of(reader: NewestRecords) -> LoggedState:
    """Return what is left of a log that was read."""
    still_open = list(reader.open_records())
    state = LoggedState({})
    for key, value in reader.survivors():
        assert replay_encoded(state, key, value)
    for producer_id, epoch, key, pending_value, overtaken in still_open:
        decoded = decode_key(key)
        assert isinstance(decoded, OffsetCommitKey)
        record = decoded, decode_value(decoded, pending_value)
        assert replay_pending(state, producer_id, epoch, record, overtaken=overtaken)
    return state


def facts(state: LoggedState) -> tuple[Committed, Pending]:
    committed = {
        (group, topic, index): value.offset
        for group, topics in state.offsets.items()
        for topic, partitions in topics.items()
        for index, value in partitions.items()
    }
    pending = {
        producer: {place: each.value.offset for place, each in transaction.offsets.items()}
        for producer, transaction in state.pending.transactions.items()
        if transaction.offsets
    }
    by_group: dict[str, dict[tuple[str, int], set[int]]] = {}
    for producer, places in pending.items():
        for group, topic, index in places:
            by_group.setdefault(group, {}).setdefault((topic, index), set()).add(producer)
    assert state.pending.by_group == by_group, "the index has what the transactions have"
    groups_by_topic: dict[str, dict[str, None]] = {}
    for group, topic, _ in committed:
        groups_by_topic.setdefault(topic, {})[group] = None
    assert state.groups_by_topic == groups_by_topic, "the index has what is committed"
    by_topic: dict[str, dict[str, int]] = {}
    for group, topic, _ in {place for places in pending.values() for place in places}:
        groups = by_topic.setdefault(topic, {})
        groups[group] = groups.get(group, 0) + 1
    assert state.pending.by_topic == by_topic, "the index has what is pending"
    return committed, pending


AT = ("g", "t", 0)
KAFKA_LOG = Path(__file__).parents[2] / "golden" / "transactional_offsets" / "kafka-4.3.1.log"


@given(st.lists(STEPS, max_size=14), st.lists(STEPS, max_size=6))
@example([Step(AT, 1), Step(AT)], [Step(None, 1, commit=True)])
@example([Step(AT, 1), Step(AT, 2)], [Step(None, 2, commit=True), Step(None, 1, commit=True)])
@example([Step(AT, 1), Step(AT, 2)], [Step(None, 1, commit=True), Step(None, 2, commit=True)])
@example([Step(AT), Step(AT, 1), Step(AT, deletes=True)], [Step(None, 1, commit=True)])
@example([Step(AT, 1), Step(AT), Step(AT, 1)], [Step(None, 1, commit=True)])
@example([Step(AT, 1), Step(AT, 2), Step(None, 2, commit=True)], [Step(None, 1, commit=True)])
def test_load_and_life_agree_with_the_model(steps: list[Step], more: list[Step]) -> None:
    """[offsets/marker] [offsets/delete-pending] [group-log/transactions]"""
    model, lived = Model(), LoggedState({})
    for at, step in enumerate(steps):
        model.apply(step, at)
        apply(lived, step, at)
    read = loaded(steps)
    assert facts(lived) == facts(read) == model.state()
    for at, step in enumerate(more, len(steps)):
        model.apply(step, at)
        apply(lived, step, at)
        apply(read, step, at)
        assert facts(lived) == facts(read) == model.state()


def test_log_that_kafka_wrote() -> None:
    reader = NewestRecords(GROUP_RECORDS)
    log = KAFKA_LOG.read_bytes()
    reader.add_batches(log)
    state = state_of(reader)
    first, second = ("jg", "jin", 0), ("jg", "jin", 1)
    assert facts(state) == ({first: 50, second: 8}, {1: {second: 9}})
    assert state.pending.epoch(1) == 0
    replay_marker(state, 1, commit=True)
    assert facts(state) == ({first: 50, second: 9}, {})


def test_batches_have_the_form_of_those_that_kafka_wrote() -> None:
    """[offsets/pending] [transactions/marker-batches]"""
    log = KAFKA_LOG.read_bytes()
    for position, header in iterate_batches(log):
        records = decode_records(log, header, position)
        pairs = [(record.key or b"", record.value) for record in records]
        if header.is_control:
            marker = read_marker(records[0])
            assert marker is not None
            end = TransactionEnd(header.producer_id, header.producer_epoch, marker)
            form, pairs = end.form, [marker_pair(marker)]
        elif header.is_transactional:
            form = BatchForm(TRANSACTIONAL, header.producer_id, header.producer_epoch)
        else:
            form = BatchForm(0)
        ours = encode_batch(pairs, header.base_offset, header.base_timestamp_ms, **form._asdict())
        assert ours == log[position : position + header.length_bytes]
        for key_bytes, value_bytes in pairs if not header.is_control else ():
            key = decode_key(key_bytes)
            assert isinstance(key, OffsetCommitKey)
            value = decode_value(key, value_bytes)
            assert value is not None
            assert (encode_key(key), encode_value(value)) == (key_bytes, value_bytes)


def test_records_of_open_transactions_that_are_no_commits_are_skipped() -> None:
    state = LoggedState({})
    assert not replay_pending(state, 1, 0, (key_of(AT), None))
    assert not state.pending.transactions
