"""Work on all groups of a broker, or on many of them: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from coterie.coordinator.groups.replay import replay
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.transactions.states import ONGOING
from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from coterie.server.broker import Broker
from tests.unit.server.groups import commit
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.manual_loop import START_MS, Handle, ManualLoop
from tests.unit.server.turns import limited_turn

# So many that all of them took more than 20 ms in one turn.
GROUPS = 12_000
TOPICS_VERSION = 6


@contextmanager
def limited_timers(loop: ManualLoop) -> Iterator[None]:
    """Limit the turns in which timers fire, too."""
    call_later = loop.call_later

    def limited(delay_s: float, call: Callable[..., object], *args: object) -> Handle:
        return call_later(delay_s, _limited, partial(call, *args))

    for handle in loop._later:
        handle.call = partial(_limited, handle.call)
    loop.call_later = limited  # type: ignore[method-assign]
    yield
    loop.call_later = call_later  # type: ignore[method-assign]


def _limited(call: Callable[[], object]) -> None:
    with limited_turn():
        call()


def make(**settings: str) -> Client:
    """Return the client of a broker with groups that have committed an offset of the topic "t"."""
    client = Client(make_broker(settings))
    for topic in ("t", "unused"):
        client.broker.controller.create(topic, 1, {})
    return client


def commit_in_groups(broker: Broker, count: int = GROUPS, topic: str = "t") -> None:
    """Let groups have an offset, as if they had committed it."""
    coordinator = broker.coordinator
    for number in range(count):
        group_id = f"g{number}"
        shard = coordinator.shards[coordinator.partition_for(group_id)]
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=START_MS)
        replay(shard.logged, (OffsetCommitKey(group=group_id, topic=topic, partition=0), value))
        shard.add_group(shard.new_group(group_id, START_MS))


def delete(*names: str) -> DeleteTopicsRequest:
    topics = [DeleteTopicsRequestTopic(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=30_000)


def committed_groups(broker: Broker) -> int:
    return sum(len(shard.logged.offsets) for shard in broker.coordinator.shards)


class TestDeletedTopics:
    def test_topic_that_no_group_uses(self) -> None:
        client = make()
        commit_in_groups(client.broker)
        (answer,) = client.call(delete("unused"), TOPICS_VERSION).responses
        assert answer.error_code == ErrorCode.NONE
        assert committed_groups(client.broker) == GROUPS

    def test_topic_that_all_groups_use(self) -> None:
        """[offsets/topic-deletion] [connections/turns]"""
        client = make()
        commit_in_groups(client.broker)
        (answer,) = client.call(delete("t"), TOPICS_VERSION).responses
        assert answer.error_code == ErrorCode.NONE
        assert committed_groups(client.broker) == 0
        assert client.broker.groups.offsets_deleted == GROUPS

    def test_others_are_served_during_the_deletion(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
        client = make()
        commit_in_groups(client.broker, 20)
        client.send(delete("t"), TOPICS_VERSION)
        while committed_groups(client.broker) == 20:
            client.loop.turn_once()
        other = Client(client.broker)
        heartbeat = HeartbeatRequest(group_id="g1", generation_id=1, member_id="m")
        assert committed_groups(client.broker) > 0
        other.send(heartbeat, 4)
        assert [each.error_code for _, each in other.answers()] == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert client.answers() == []
        client.loop.turn()
        assert len(client.answers()) == 1

    def test_partition_that_is_loaded_again_during_the_deletion(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The response comes when its offsets are deleted, too."""
        monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
        client = make(**{"offsets.topic.num.partitions": "1"})
        for number in range(20):
            client.call(commit(1, group_id=f"g{number}"), 8)
        client.send(delete("t"), TOPICS_VERSION)
        while committed_groups(client.broker) == 20:
            client.loop.turn_once()
        groups = client.broker.groups
        groups.unload_partition(0)
        groups.load_partition(0, groups.epoch(0) + 1)
        client.loop.turn()
        assert [each.responses[0].error_code for _, each in client.answers()] == [ErrorCode.NONE]
        assert committed_groups(client.broker) == 0

    def test_deletion_that_a_stop_interrupts_is_completed_by_the_next_start(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
        client = make()
        commit_in_groups(client.broker, 20)
        client.send(delete("t"), TOPICS_VERSION)
        while committed_groups(client.broker) == 20:
            client.loop.turn_once()
        client.broker.groups.stop()
        client.loop.turn()
        assert "t" in client.broker.topics.deleting


def test_steps_of_a_deletion_in_a_partition_that_was_given_up() -> None:
    client = make(**{"offsets.topic.num.partitions": "1"})
    commit_in_groups(client.broker, 3)
    broker = client.broker
    topic = broker.topics.published.image.by_name["t"]
    steps = broker.coordinator.delete_topic_offsets(0, [topic], START_MS)
    assert isinstance(next(steps), Effects)
    broker.groups.unload_partition(0)
    assert list(steps) == []


RETENTION = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "60000"}


class TestExpiry:
    """All partitions are swept at the same time [offsets/sweep]."""

    def pass_time(self, client: Client) -> None:
        with limited_timers(client.loop):
            client.loop.advance(61_000)

    def test_groups_whose_offsets_stay(self) -> None:
        settings = {**RETENTION, "offsets.retention.minutes": "100"}
        client = make(**settings, **{"offsets.topic.num.partitions": "50"})
        commit_in_groups(client.broker, 2 * GROUPS)
        self.pass_time(client)
        assert committed_groups(client.broker) == 2 * GROUPS

    @pytest.mark.parametrize("partitions", ["1", "50"])
    def test_groups_whose_offsets_expire(self, partitions: str) -> None:
        client = make(**RETENTION, **{"offsets.topic.num.partitions": partitions})
        commit_in_groups(client.broker, 3_000)
        self.pass_time(client)
        assert committed_groups(client.broker) == 0
        assert not list(client.broker.coordinator.groups())

    def test_group_with_many_offsets(self) -> None:
        client = make(**RETENTION, **{"offsets.topic.num.partitions": "1"})
        shard = client.broker.coordinator.shards[0]
        for index in range(19_000):
            value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=START_MS)
            replay(shard.logged, (OffsetCommitKey(group="g", topic="t", partition=index), value))
        shard.add_group(shard.new_group("g", START_MS))
        self.pass_time(client)
        assert not list(client.broker.coordinator.groups())
        assert committed_groups(client.broker) == 0


class TestTransactions:
    """[transactions/timeout]"""

    def make(self, count: int, **settings: str) -> tuple[Client, dict[str, Transaction]]:
        client = make(**settings)
        broker = client.broker
        broker.controller.create(TRANSACTIONS_TOPIC, 1, {})
        broker.transaction_runtime.create_topic()
        client.loop.turn()
        (shard,) = broker.transaction_runtime.coordinator.shards
        for number in range(count):
            name = f"id-{number}"
            transaction = shard.transactions[name] = Transaction(name, number, START_MS)
            transaction.epoch = 0
        # Any request with an id starts the timers.
        request = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1_000)
        client.call(request, 4)
        return client, shard.transactions

    def test_transactions_that_time_out_together(self) -> None:
        client, transactions = self.make(4_000)
        for transaction in transactions.values():
            transaction.state, transaction.timeout_ms = ONGOING, 1_000
            transaction.started_ms = START_MS
        with limited_timers(client.loop):
            client.loop.advance(11_000)
        assert {each.state.kafka_name for each in transactions.values()} == {"CompleteAbort"}

    def test_ids_that_expire_together(self) -> None:
        settings = {
            "transactional.id.expiration.ms": "5000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "6000",
        }
        client, transactions = self.make(4_000, **settings)
        with limited_timers(client.loop):
            client.loop.advance(13_000)
        assert transactions == {}
