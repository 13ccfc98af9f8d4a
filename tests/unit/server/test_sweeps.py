"""Work on all groups of a broker, or on many of them: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

import pytest

from coterie.coordinator.effects import Effects
from coterie.coordinator.replay import replay
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.server.broker import Broker
from tests.unit.server.groups import commit
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.manual_loop import START_MS

# So many that all of them took more than 20 ms in one turn.
GROUPS = 12_000
TOPICS_VERSION = 6


def make(**settings: str) -> Client:
    """Return the client of a broker with groups that have committed an offset of the topic "t"."""
    client = Client(make_broker(settings))
    for topic in ("t", "unused"):
        client.broker.topics.create(topic, 1, {})
    return client


def commit_in_groups(broker: Broker, count: int = GROUPS, topic: str = "t") -> None:
    """Let groups have an offset, as if they had committed it."""
    coordinator = broker.coordinator
    for number in range(count):
        group_id = f"g{number}"
        shard = coordinator.shards[coordinator.partition_for(group_id)]
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=START_MS)
        replay(shard.logged, (OffsetCommitKey(group=group_id, topic=topic, partition=0), value))
        shard.create_group(group_id, START_MS)


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
