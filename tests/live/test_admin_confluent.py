"""Administration with confluent-kafka's AdminClient, which uses the newest versions of the APIs."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.libraries import Message

LIMIT_S = 30.0
# The methods that return these have no types.
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_MAX_TIMESTAMP: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
BASE_MS = 1_600_000_000_000


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def error_of(future: Future[Any]) -> str:
    """Return the name of the error with which a future ends."""
    with pytest.raises(KafkaException) as caught:
        future.result(LIMIT_S)
    return str(caught.value.args[0].name())


def test_topics(admin: AdminClient, name: str) -> None:
    """Create, list, describe, add partitions, delete."""

    def create(validate_only: bool = False) -> Future[Any]:
        return admin.create_topics([NewTopic(name, 3, 1)], validate_only=validate_only)[name]

    def listed() -> dict[str, int]:
        topics = admin.list_topics(timeout=LIMIT_S).topics
        return {topic: len(found.partitions) for topic, found in topics.items()}

    create(validate_only=True).result(LIMIT_S)
    assert name not in listed()
    create().result(LIMIT_S)
    eventually(lambda: listed().get(name) == 3, "listed")
    described = admin.describe_topics(confluent_kafka.TopicCollection([name]))[name].result(LIMIT_S)
    assert described.name == name
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert {len(each.isr) for each in described.partitions} == {1}
    assert error_of(create()) == "TOPIC_ALREADY_EXISTS"
    admin.create_partitions([NewPartitions(name, 5)])[name].result(LIMIT_S)
    eventually(lambda: listed().get(name) == 5, "five partitions")
    assert error_of(admin.create_partitions([NewPartitions(name, 2)])[name]) == "INVALID_PARTITIONS"
    admin.delete_topics([name])[name].result(LIMIT_S)
    eventually(lambda: name not in listed(), "deleted")
    assert error_of(admin.delete_topics([name])[name]) == "UNKNOWN_TOPIC_OR_PART"


def test_configs(admin: AdminClient, make_topic: Callable[..., str]) -> None:
    """IncrementalAlterConfigs changes the named settings; AlterConfigs replaces all."""
    topic = make_topic(config={"retention.ms": "111000"})
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def shown() -> dict[str, tuple[str, int]]:
        found = admin.describe_configs([resource])[resource].result(LIMIT_S)
        return {key: (entry.value, entry.source) for key, entry in found.items()}

    dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert shown()["retention.ms"] == ("111000", dynamic)
    default = shown()["max.message.bytes"]
    entry = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(LIMIT_S)
    eventually(lambda: shown()["max.message.bytes"] == ("5000", dynamic), "set", evidence=shown)
    assert shown()["retention.ms"] == ("111000", dynamic)
    entry = ConfigEntry("max.message.bytes", None, incremental_operation=AlterConfigOpType.DELETE)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(LIMIT_S)
    eventually(lambda: shown()["max.message.bytes"] == default, "deleted", evidence=shown)

    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "6000"})
    with pytest.deprecated_call():
        replacing = admin.alter_configs([whole])[whole]
    replacing.result(LIMIT_S)
    eventually(
        lambda: shown()["max.message.bytes"] == ("6000", dynamic), "replaced", evidence=shown
    )
    assert shown()["retention.ms"][0] != "111000"

    invalid = ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "many"})
    with pytest.deprecated_call():
        refused = admin.alter_configs([invalid])[invalid]
    assert error_of(refused) == "INVALID_CONFIG"


def group_offsets(admin: AdminClient, group: str) -> dict[int, int]:
    """Return the committed offset of each partition."""
    request = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(request)[group].result(LIMIT_S)
    return {each.partition: each.offset for each in found.topic_partitions}


def test_living_group(admin: AdminClient, living_group: tuple[str, libraries.Reader]) -> None:
    """A group with a member is listed and described, and can't be deleted."""
    name, _member = living_group
    stable = confluent_kafka.ConsumerGroupState.STABLE
    listed = admin.list_consumer_groups(states={stable}).result(LIMIT_S)
    assert not listed.errors
    (listing,) = [each for each in listed.valid if each.group_id == name]
    assert (listing.state, listing.is_simple_consumer_group) == (stable, False)
    assert listing.type == confluent_kafka.ConsumerGroupType.CLASSIC
    described = admin.describe_consumer_groups([name])[name].result(LIMIT_S)
    assert (described.state, described.partition_assignor) == (stable, "range")
    assert described.coordinator.id >= 0
    (member,) = described.members
    assert member.host == "/127.0.0.1"
    assert {each.partition for each in member.assignment.topic_partitions} == {0, 1}
    assert group_offsets(admin, name) == {0: 10, 1: 10}

    assert error_of(admin.delete_consumer_groups([name])[name]) == "NON_EMPTY_GROUP"
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 1)])
    altered = admin.alter_consumer_group_offsets([moved])[name].result(LIMIT_S)
    assert [each.error.code() for each in altered.topic_partitions] == [
        KafkaError.UNKNOWN_MEMBER_ID
    ]
    assert group_offsets(admin, name) == {0: 10, 1: 10}


def test_empty_group(admin: AdminClient, living_group: tuple[str, libraries.Reader]) -> None:
    """Without members, the offsets of a group can be altered, and the group can be deleted."""
    name, member = living_group
    member.close()
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 3)])
    altered = admin.alter_consumer_group_offsets([moved])[name].result(LIMIT_S)
    assert [each.error for each in altered.topic_partitions] == [None]
    assert group_offsets(admin, name) == {0: 3, 1: 10}
    described = admin.describe_consumer_groups([name])[name].result(LIMIT_S)
    assert described.state == confluent_kafka.ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([name])[name].result(LIMIT_S)
    assert error_of(admin.delete_consumer_groups([name])[name]) == "GROUP_ID_NOT_FOUND"
    assert group_offsets(admin, name) == {}


def test_offsets_by_time_and_deleted_records(
    broker: Broker, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    """ListOffsets finds the start, the end, the highest timestamp and any time.

    DeleteRecords moves the start.
    """
    topic = make_topic()
    for step_ms in (0, 1000, 9000, 2000):
        message = Message(b"x", timestamp_ms=BASE_MS + step_ms, partition=0)
        libraries.BY_NAME["confluent"].produce(broker.bootstrap, topic, [message])
    partition = TopicPartition(topic, 0)

    def found(spec: OffsetSpec) -> tuple[int, int]:
        result = admin.list_offsets({partition: spec})[partition].result(LIMIT_S)
        return result.offset, result.timestamp

    assert found(_EARLIEST)[0] == 0
    assert found(_LATEST)[0] == 4
    assert found(_MAX_TIMESTAMP) == (2, BASE_MS + 9000)
    assert found(OffsetSpec.for_timestamp(BASE_MS + 500)) == (1, BASE_MS + 1000)
    assert found(OffsetSpec.for_timestamp(BASE_MS + 1500)) == (2, BASE_MS + 9000)
    assert found(OffsetSpec.for_timestamp(BASE_MS + 10_000))[0] == -1
    before = TopicPartition(topic, 0, 2)
    deleted = admin.delete_records([before])[before].result(LIMIT_S)
    assert deleted.low_watermark == 2
    assert found(_EARLIEST)[0] == 2
    beyond = TopicPartition(topic, 0, 100)
    assert error_of(admin.delete_records([beyond])[beyond]) == "OFFSET_OUT_OF_RANGE"


def test_cluster(broker: Broker, admin: AdminClient) -> None:
    """The cluster is one node at the bootstrap address, which is the controller."""
    cluster = admin.describe_cluster().result(LIMIT_S)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == broker.bootstrap
    assert cluster.controller.id == node.id
    assert cluster.cluster_id
