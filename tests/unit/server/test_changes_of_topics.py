"""Changes of topics wait for the disk one after the other; others are served meanwhile.

Rules: [topics/one-change-at-a-time].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.server.metadata.topic_changes import Change, TopicChanges
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.manual import Client, ManualEnvironment, logged, make_broker, open_log
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.produced import batch, produce, produce_request
from tests.unit.server.slow_disk import SlowDisk

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def client(disk: SlowDisk) -> Client:
    broker = make_broker()
    broker.changes._disk = disk
    return Client(broker)


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def deletion(*names: str) -> DeleteTopicsRequest:
    topics = [DeleteTopicsRequestTopic(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1000)


def metadata(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)


def finish(client: Client, disk: SlowDisk) -> list[Any]:
    """Let the disk do all work; return the responses."""
    while disk.work:
        disk.finish()
        client.loop.turn()
    return [answer for _, answer in client.answers()]


def errors_of(answers: list[Any]) -> list[list[int]]:
    return [[each.error_code for each in answer.topics] for answer in answers]


class TestRequests:
    def test_others_are_served_while_topics_are_created(
        self, client: Client, disk: SlowDisk
    ) -> None:
        client.send(creation("a", "b"), 7)
        client.send(HEARTBEAT, 4)
        other = Client(client.broker)
        assert other.call(HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.answers() == []
        assert "a" not in client.broker.topics.by_name
        created, beaten = finish(client, disk)
        assert [each.error_code for each in created.topics] == [0, 0]
        assert beaten.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert {"a", "b"} <= client.broker.topics.by_name.keys()

    def test_the_same_topic_is_created_once(self, client: Client, disk: SlowDisk) -> None:
        other = Client(client.broker)
        client.send(creation("a"), 7)
        other.send(creation("a"), 7)
        assert errors_of(finish(client, disk)) == [[ErrorCode.NONE]]
        assert errors_of(finish(other, disk)) == [[ErrorCode.TOPIC_ALREADY_EXISTS]]

    def test_topic_can_be_deleted_and_created_by_requests_that_wait(
        self, client: Client, disk: SlowDisk
    ) -> None:
        other = Client(client.broker)
        client.send(creation("a"), 7)
        other.send(deletion("a"), 6)
        finish(client, disk)
        (deleted,) = finish(other, disk)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        client.send(creation("a"), 7)
        assert errors_of(finish(client, disk)) == [[ErrorCode.NONE]]

    def test_partitions_are_added(self, client: Client, disk: SlowDisk) -> None:
        client.send(creation("a"), 7)
        finish(client, disk)
        asked = CreatePartitionsRequestTopic(name="a", count=3, assignments=None)
        client.send(CreatePartitionsRequest(topics=[asked], timeout_ms=1, validate_only=False), 3)
        assert len(client.broker.topics.by_name["a"].partitions) == 1
        (answer,) = finish(client, disk)
        assert answer.results[0].error_code == ErrorCode.NONE
        assert len(client.broker.topics.by_name["a"].partitions) == 3

    def test_metadata_creates_a_topic_once(self, client: Client, disk: SlowDisk) -> None:
        for _ in range(3):
            answer = client.call(metadata("a"), 9)
            assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        finish(client, disk)
        assert client.call(metadata("a"), 9).topics[0].error_code == ErrorCode.NONE
        assert len(logged(client.broker, "topic created")) == 2, "this one and the offsets topic"

    def test_topic_that_is_being_deleted_is_unknown(self, client: Client, disk: SlowDisk) -> None:
        client.broker.controller.create("a", 1, {})
        open_log(client.broker, "a")
        client.send(deletion("a"), 6)
        other = Client(client.broker)
        refused = produce(other, batch(b"a"), topic="a")
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        other.send(creation("a"), 7)
        (answer,) = finish(client, disk)
        assert answer.responses[0].error_code == ErrorCode.NONE

    def test_producer_ids_are_reserved_before_they_are_used(
        self, client: Client, disk: SlowDisk
    ) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        client.send(request, 4)
        assert client.answers() == []
        (first,) = finish(client, disk)
        assert client.call(request, 4).producer_id == first.producer_id + 1

    def test_lost_connection_does_not_end_the_change(self, client: Client, disk: SlowDisk) -> None:
        client.send(creation("a", "b"), 7)
        client.connection.connection_lost(None)
        finish(client, disk)
        assert {"a", "b"} <= client.broker.topics.by_name.keys()


def test_topic_that_cannot_be_deleted_is_served_again() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    client = Client(make_broker(filesystem=faulty))
    client.broker.controller.create("a", 2, {})
    assert produce(client, batch(b"a"), topic="a").error_code == ErrorCode.NONE
    faulty.fail_at("rename", 1)
    answer = client.call(deletion("a"), 6)
    assert answer.responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(client, batch(b"b"), topic="a").base_offset == 1
    client.send(produce_request(batch(b"a"), topic="a", partition=1), 9)
    client.loop.turn()
    ((_, answer),) = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


class TestQueue:
    @pytest.fixture
    def changes(self, disk: SlowDisk) -> TopicChanges:
        return TopicChanges(ManualEnvironment(ManualLoop()), disk)

    def test_one_change_ends_before_the_next_begins(
        self, changes: TopicChanges, disk: SlowDisk
    ) -> None:
        seen: list[object] = []

        def change(name: str) -> Change[str]:
            seen.append(f"{name} begins")
            yield iter(())
            yield None
            return name

        for name in "ab":
            changes.submit(change(name), lambda *outcome: seen.append(outcome))
        assert seen == ["a begins"]
        assert not changes.idle
        disk.finish()
        assert seen == ["a begins", ("a", None), "b begins"]
        disk.finish()
        assert seen[-1] == ("b", None)
        assert changes.idle

    def test_errors_of_the_disk_are_raised_in_the_change(
        self, changes: TopicChanges, disk: SlowDisk
    ) -> None:
        seen: list[object] = []

        def change() -> Change[str]:
            try:
                yield failing()
            except OSError:
                yield failing()
            return "not reached"

        changes.submit(change(), lambda result, failure: seen.append((result, str(failure))))
        disk.finish()
        assert seen == []
        disk.finish()
        assert seen == [(None, "full")]


def failing() -> Any:
    yield
    raise OSError("full")
