"""The share coordinator: requests, epochs, its log, and what a load finds in it."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.share_partition.states import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    RecordState,
    StateBatch,
)
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.merging import merge
from coterie.coordinator.share_state.requests import (
    Delete,
    Initialize,
    Read,
    ReadSummary,
    ShareKey,
    StateRequest,
    StateResult,
    Write,
)
from coterie.coordinator.share_state.service import ShareCoordinator, coordinator_key
from coterie.coordinator.topic_image import TopicImage, TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Record, encode_records

TOPIC = bytes([0] * 7 + [1] + [0] * 7 + [2])
KEY = ShareKey("grp", TOPIC, 2)
NOW_MS = 1_700_000_000_000
FOO = TopicImage("foo", TOPIC, 3)


class Coordinated:
    """A coordinator with one partition, whose appends are durable at once, and its log."""

    def __init__(self, updates_per_snapshot: int = 500, pairs: list[Pair] | None = None) -> None:
        topics = TopicsImage({"foo": FOO}, {TOPIC: FOO})
        self.coordinator = ShareCoordinator(ShareStateConfig(1, updates_per_snapshot), topics)
        self.coordinator.set_partitions(1)
        self.coordinator.begin_load(0, 0)
        self.pairs: list[Pair] = list(pairs or ())
        reader = self.coordinator.reader()
        for key, value in self.pairs:
            assert key is not None
            reader.add_batches(encode_records([Record(0, NOW_MS, key, value, ())]))
        for key, value in reader.survivors():
            self.coordinator.replay(0, key, value)
        self.coordinator.finish_load(0, NOW_MS)

    def ask(self, request: StateRequest, now_ms: int = NOW_MS) -> StateResult:
        """Return the answer, once what was written is durable."""
        context = RequestContext(ClientContext(), 0, "to")
        return self.settled(self.coordinator.handle(now_ms, request, context))

    def settled(self, effects: Any) -> StateResult:
        """Take what is appended, and return the answer."""
        for append in effects.appends:
            self.pairs += self.coordinator.encode(append.records)
        if effects.response is not None:
            assert isinstance(effects.response, StateResult)
            return effects.response
        (reply,) = self.coordinator.appended([(0, len(effects.appends))], NOW_MS).replies
        assert isinstance(reply.message, StateResult)
        return reply.message

    def hex(self) -> list[tuple[str, str]]:
        """Return the log as text."""
        return [(key.hex(), (value or b"").hex()) for key, value in self.pairs]

    def states(self) -> dict[ShareKey, Any]:
        """Return everything in memory."""
        return {
            key: [
                getattr(state, name) for name in _FIELDS
            ]
            for key, state in self.coordinator.shards[0].states.items()
        }  # fmt: skip


# All of a state but the number of updates, which a snapshot sets back.
_FIELDS = (
    *("batches", "created_ms", "delivery_complete_count", "leader_epoch"),
    *("snapshot_epoch", "start_offset", "state_epoch"),
)


def write(*batches: StateBatch, start: int = 0, leader: int = 0, state: int = 2) -> Write:
    """Return a write of the share partition."""
    return Write(KEY, state, leader, start, 4, batches)


def test_records_are_those_of_kafka() -> None:
    """The bytes of a snapshot and an update, as Kafka 4.3.1 writes them."""
    coordinated = Coordinated()
    assert coordinated.ask(Initialize(KEY, 2, -1)) == StateResult()
    assert coordinated.ask(write(StateBatch(0, 3, ACKNOWLEDGED, 1))) == StateResult()
    key = "00036772700000000000000001000000000000000200000002"
    snapshot = "0000000000000000000200000000ffffffffffffffff" + 2 * "0000018bcfe56800" + "0100"
    update = "0" * 37 + "2" + "0" * 31 + "30200010001000400000004"
    assert coordinated.hex() == [
        ("0000" + key, snapshot),
        ("0001" + key, update),
    ]


def test_keys_find_their_coordinator() -> None:
    """The key has the topic id in URL-safe base64 without padding."""
    assert coordinator_key(KEY) == "grp:AAAAAAAAAAEAAAAAAAAAAg:2"


def test_epochs_fence_writers_and_readers() -> None:
    """An old leader and an old state are refused; a newer leader is kept by a read."""
    coordinated = Coordinated()
    assert coordinated.ask(write()).error is ErrorCode.INVALID_REQUEST
    assert coordinated.ask(Read(KEY, 0)).error is ErrorCode.INVALID_REQUEST
    assert coordinated.ask(ReadSummary(KEY, 0)) == StateResult()
    coordinated.ask(Initialize(KEY, 2, 7))
    assert coordinated.ask(Initialize(KEY, 1, 0)).error is ErrorCode.FENCED_STATE_EPOCH
    records = len(coordinated.pairs)
    assert coordinated.ask(Read(KEY, 3))[2:5] == (2, 0, 7)
    assert len(coordinated.pairs) == records + 1, "the leader epoch is written"
    assert coordinated.ask(Read(KEY, 2)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert coordinated.ask(write(leader=2)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert coordinated.ask(write(leader=3, state=1)).error is ErrorCode.FENCED_STATE_EPOCH
    assert coordinated.ask(write(leader=-1, state=-1, start=5)) == StateResult()
    assert coordinated.ask(write(leader=3, state=9, start=4)) == StateResult()
    summary = coordinated.ask(ReadSummary(KEY, -1))
    assert summary == StateResult(
        state_epoch=2, leader_epoch=3, start_offset=4, delivery_complete_count=4
    )
    assert coordinated.ask(ReadSummary(KEY, 1)).error is ErrorCode.FENCED_LEADER_EPOCH


def test_odd_keys() -> None:
    """A zero topic id, a negative partition, and partitions that do not exist."""
    coordinated = Coordinated()
    assert coordinated.ask(Delete(KEY)) == StateResult()
    for key, error in [
        (KEY._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
        (KEY._replace(partition=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=bytes([9] * 16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]:
        assert coordinated.ask(Initialize(key, 0, 0)).error is error
        assert coordinated.ask(Delete(key)).error is error
    for topic_id in (bytes(16), bytes([9] * 16)):
        summary = coordinated.ask(ReadSummary(KEY._replace(topic_id=topic_id), 0))
        assert summary.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not coordinated.pairs


def test_a_second_initialisation_begins_anew() -> None:
    """An administrator sets another start offset: everything else is forgotten."""
    coordinated = Coordinated()
    coordinated.ask(Initialize(KEY, 2, -1))
    coordinated.ask(write(StateBatch(0, 3, ACKNOWLEDGED, 1)))
    coordinated.ask(Initialize(KEY, 5, 2))
    state = coordinated.coordinator.shards[0].states[KEY]
    assert (state.snapshot_epoch, state.start_offset, state.delivery_complete_count) == (1, 2, 0)
    assert state.batches == []


def test_states_of_a_deleted_topic_are_forgotten() -> None:
    """Its keys get tombstones."""
    coordinated = Coordinated()
    coordinated.ask(Initialize(KEY, 2, -1))
    effects = coordinated.coordinator.delete_topics({TOPIC}, NOW_MS)
    (append,) = effects.appends
    assert [value for _, value in append.records] == [None]
    assert not coordinated.states()


def test_a_snapshot_follows_many_updates() -> None:
    """The write after so many updates is a snapshot of everything."""
    coordinated = Coordinated(updates_per_snapshot=3)
    coordinated.ask(Initialize(KEY, 2, 0))
    for offset in range(8):
        coordinated.ask(write(StateBatch(offset, offset, AVAILABLE, offset)))
    types = [key[1] for key, _ in coordinated.pairs]
    assert types == [0, 1, 1, 1, 0, 1, 1, 1, 0]
    assert coordinated.states() == Coordinated(pairs=coordinated.pairs).states()


_batches = st.builds(
    lambda first, more, state, count: StateBatch(first, first + more, state, count),
    st.integers(0, 12), st.integers(0, 5),
    st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]), st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(_batches, max_size=8), st.integers(0, 8))
def test_merging_decides_for_each_record(batches: list[StateBatch], start: int) -> None:
    """Each record has the state with most deliveries, then the largest; borders are minimal."""
    expected: dict[int, tuple[int, RecordState]] = {}
    for batch in batches:
        for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
            state = (batch.delivery_count, batch.state)
            expected[offset] = max(expected.get(offset, state), state)
    merged = merge(batches, start)
    found = {
        offset: (batch.delivery_count, batch.state)
        for batch in merged
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert found == expected
    assert sum(each.last_offset - each.first_offset + 1 for each in merged) == len(expected)
    for one, two in pairwise(merged):
        assert one.last_offset < two.first_offset
        assert one.last_offset + 1 < two.first_offset or one[2:] != two[2:]


_requests = st.one_of(
    st.builds(lambda epoch, start: Initialize(KEY, epoch, start), st.integers(0, 3),
              st.integers(-1, 5)),
    st.builds(lambda batches, start, leader: Write(KEY, 3, leader, start, 0, batches),
              st.lists(_batches, max_size=3), st.integers(-1, 9), st.integers(0, 2)),
    st.builds(lambda leader: Read(KEY, leader), st.integers(0, 2)),
    st.just(Delete(KEY)),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(_requests, max_size=20), st.integers(1, 4))
def test_what_is_loaded_is_what_was_there(
    requests: list[StateRequest], updates_per_snapshot: int
) -> None:
    """The log gives back every state, however it was reached [share-partitions/state-log]."""
    coordinated = Coordinated(updates_per_snapshot)
    for request in requests:
        coordinated.ask(request)
    assert Coordinated(pairs=coordinated.pairs).states() == coordinated.states()


def test_load_drops_what_was_below_a_start_offset_that_went_back() -> None:
    """The states of a load are merged once, and before that where the start offset goes back."""
    coordinated = Coordinated()
    coordinated.ask(Initialize(KEY, 3, 0))
    for start, first in ((10, 0), (5, 20)):
        states = [StateBatch(first, first + 15, ACKNOWLEDGED, 1)]
        assert not coordinated.ask(Write(KEY, 3, 1, start, 0, states)).error
    kept = [StateBatch(10, 15, ACKNOWLEDGED, 1), StateBatch(20, 35, ACKNOWLEDGED, 1)]
    assert coordinated.coordinator.shards[0].states[KEY].batches == kept
    assert Coordinated(pairs=coordinated.pairs).states() == coordinated.states()


def test_write_that_is_not_acknowledged_in_time_is_answered_once() -> None:
    """[share-partitions/late-writes]"""
    coordinator = Coordinated().coordinator

    def ask(start_offset: int, now_ms: int, to: str) -> None:
        context = RequestContext(ClientContext(), 0, to)
        effects = coordinator.handle(now_ms, Initialize(KEY, 2, start_offset), context)
        assert effects.response is None
        assert len(effects.appends) == 1

    ask(1, NOW_MS, "before")
    coordinator.hold(0, NOW_MS + 100)
    ask(2, NOW_MS + 200, "held")
    assert coordinator.next_deadline_ms() == NOW_MS + 5_100
    assert not coordinator.advance(NOW_MS + 5_099).replies
    (reply,) = coordinator.advance(NOW_MS + 5_100).replies
    assert reply.to == "before"
    assert reply.message.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.next_deadline_ms() == NOW_MS + 5_200
    coordinator.release(0)
    assert coordinator.next_deadline_ms() is None
    (acknowledged,) = coordinator.appended([(0, 2)], NOW_MS + 6_000).replies
    assert (acknowledged.to, acknowledged.message.error) == ("held", ErrorCode.NONE)
