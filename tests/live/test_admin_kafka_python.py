"""Administration with kafka-python's KafkaAdminClient."""

import uuid
from collections.abc import Callable, Iterator

import kafka.admin
import pytest
from kafka import OffsetAndMetadata, TopicPartition, errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.libraries import Message

BASE_MS = 1_600_000_000_000
DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"


@pytest.fixture
def admin(broker: Broker) -> Iterator[kafka.admin.KafkaAdminClient]:
    """An admin client, which is closed with the test."""
    client = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_topics(admin: kafka.admin.KafkaAdminClient, name: str) -> None:
    """Create, list, describe by name and by id, add partitions, delete."""
    new_topic = {name: {"num_partitions": 3, "replication_factor": 1}}
    assert admin.create_topics(new_topic, validate_only=True)["topics"][0]["error_code"] == 0
    assert name not in admin.list_topics()
    created = admin.create_topics(new_topic, wait_for_metadata=True)["topics"][0]
    assert (created["num_partitions"], created["replication_factor"]) == (3, 1)
    assert name in admin.list_topics()
    (described,) = admin.describe_topics([name])
    assert described["topic_id"] == created["topic_id"]
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2]
    assert {each["leader_id"] for each in described["partitions"]} != {-1}
    (by_id,) = admin.describe_topics([uuid.UUID(created["topic_id"])])
    assert by_id["name"] == name
    (with_partitions,) = admin.describe_topic_partitions([name])["topics"]
    assert len(with_partitions["partitions"]) == 3

    admin.create_partitions({name: 5})
    eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "five partitions")
    admin.delete_topics([name])
    eventually(lambda: name not in admin.list_topics(), "deleted")


def test_topic_errors(
    admin: kafka.admin.KafkaAdminClient, make_topic: Callable[..., str], name: str
) -> None:
    """Each invalid request gets Kafka's error for it."""
    topic = make_topic(partitions=2)
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_topics({f"{name}-x": {"num_partitions": 0, "replication_factor": 1}})
    with pytest.raises(errors.InvalidReplicationFactorError):
        admin.create_topics({f"{name}-x": {"num_partitions": 1, "replication_factor": 9}})
    with pytest.raises(errors.InvalidTopicError):
        admin.create_topics({"no spaces, please": {"num_partitions": 1, "replication_factor": 1}})
    new_topic = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "soon"}}
    with pytest.raises(errors.InvalidConfigurationError):
        admin.create_topics({f"{name}-x": new_topic})
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([f"{name}-never-made"])


def test_configs(admin: kafka.admin.KafkaAdminClient, make_topic: Callable[..., str]) -> None:
    """Settings of a topic are set at its creation, altered, described with their source, reset."""
    topic = make_topic(config={"retention.ms": "111000"})

    def shown() -> dict[str, tuple[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        found = admin.describe_configs(resources, config_filter="all")["topic"][topic]
        return {key: (each["value"], each["config_source"]) for key, each in found.items()}

    before = shown()
    assert before["retention.ms"] == ("111000", DYNAMIC_TOPIC_CONFIG)
    assert before["cleanup.policy"][0] == "delete"
    assert before["max.message.bytes"][1] != DYNAMIC_TOPIC_CONFIG
    changes = {"max.message.bytes": "5000", "retention.ms": (AlterConfigOp.SET, "222000")}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
    eventually(lambda: shown()["retention.ms"][0] == "222000", "altered", evidence=shown)
    assert shown()["max.message.bytes"] == ("5000", DYNAMIC_TOPIC_CONFIG)
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["max.message.bytes"])])
    eventually(lambda: shown()["max.message.bytes"] == before["max.message.bytes"], "reset")
    assert shown()["retention.ms"] == ("222000", DYNAMIC_TOPIC_CONFIG)


def test_broker_configs(admin: kafka.admin.KafkaAdminClient) -> None:
    """The broker describes its settings by Kafka's names."""
    node = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    resources = [ConfigResource(ConfigResourceType.BROKER, node)]
    found = admin.describe_configs(resources, config_filter="all")["broker"][node]
    assert int(found["group.initial.rebalance.delay.ms"]["value"]) >= 0
    assert int(found["offset.metadata.max.bytes"]["value"]) == 4096
    assert int(found["offsets.topic.num.partitions"]["value"]) > 0


def test_living_group(
    admin: kafka.admin.KafkaAdminClient, living_group: tuple[str, libraries.Reader]
) -> None:
    """A group with a member is listed and described, and can't be deleted."""
    name, _member = living_group
    both = {TopicPartition(name, partition) for partition in range(2)}
    listed = {each["group_id"]: each for each in admin.list_groups(states_filter=["Stable"])}
    assert listed[name]["protocol_type"] == "consumer"
    assert listed[name]["group_type"] == "classic"
    assert name not in {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}
    assert name not in {each["group_id"] for each in admin.list_groups(types_filter=["consumer"])}
    described = admin.describe_groups([name])[name]
    assert described["group_state"] == "Stable"
    assert described["protocol_data"] == "range"
    (member,) = described["members"]
    assert member["client_host"] == "/127.0.0.1"
    (assigned,) = member["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (name, [0, 1])
    offsets = admin.list_group_offsets(name)[name]
    assert {partition: each.offset for partition, each in offsets.items()} == dict.fromkeys(
        both, 10
    )

    assert admin.delete_groups([name])[name] == "NonEmptyGroupError"
    refused = admin.alter_group_offsets(
        name, {TopicPartition(name, 0): OffsetAndMetadata(1, "", -1)}
    )
    assert set(refused.values()) == {errors.UnknownMemberIdError}
    refused = admin.delete_group_offsets(name, both)
    assert set(refused.values()) == {errors.GroupSubscribedToTopicError}


def test_empty_group(
    admin: kafka.admin.KafkaAdminClient, living_group: tuple[str, libraries.Reader]
) -> None:
    """Without members, the offsets of a group can be altered, reset and deleted, and so can it."""
    name, member = living_group
    member.close()
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    results = admin.alter_group_offsets(name, {first: OffsetAndMetadata(3, "altered", -1)})
    assert results == {first: errors.NoError}
    offsets = admin.list_group_offsets(name)[name]
    assert (offsets[first].offset, offsets[first].metadata) == (3, "altered")
    results = admin.reset_group_offsets(
        name, {first: OffsetSpec.LATEST, second: OffsetSpec.EARLIEST}
    )
    assert {partition: each["offset"] for partition, each in results.items()} == {
        first: 10,
        second: 0,
    }
    assert admin.delete_group_offsets(name, [second]) == {second: errors.NoError}
    assert set(admin.list_group_offsets(name)[name]) == {first}
    assert admin.describe_groups([name])[name]["group_state"] == "Empty"
    assert admin.delete_groups([name]) == {name: "OK"}
    assert name not in {each["group_id"] for each in admin.list_groups()}
    assert admin.describe_groups([name])[name]["group_state"] == "Dead"
    assert admin.delete_groups([name]) == {name: "GroupIdNotFoundError"}


def test_offsets_by_time_and_deleted_records(
    broker: Broker, admin: kafka.admin.KafkaAdminClient, make_topic: Callable[..., str]
) -> None:
    """ListOffsets finds the start, the end, the highest timestamp and any time.

    The record with the highest timestamp is not the last one. DeleteRecords moves the start.
    """
    topic = make_topic()
    times = [BASE_MS, BASE_MS + 1000, BASE_MS + 9000, BASE_MS + 2000]
    library = libraries.BY_NAME["kafka-python"]
    for at_ms in times:
        library.produce(broker.bootstrap, topic, [Message(b"x", timestamp_ms=at_ms, partition=0)])
    partition = TopicPartition(topic, 0)

    def offset(spec: object) -> int:
        return int(admin.list_partition_offsets({partition: spec})[partition].offset)

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 4
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 2
    assert offset(BASE_MS + 1000) == 1
    assert offset(BASE_MS + 1001) == 2
    assert offset(BASE_MS + 10_000) == -1
    admin.delete_records({partition: 2})
    assert offset(OffsetSpec.EARLIEST) == 2
    read = library.consume(broker.bootstrap, topic, 1, 2)
    assert [record.offset for record in read] == [2, 3]
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({partition: 100})


def test_cluster(broker: Broker, admin: kafka.admin.KafkaAdminClient) -> None:
    """The cluster is one node at the bootstrap address, which is the controller."""
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap
    assert cluster["controller_id"] == node["broker_id"]
    assert cluster["cluster_id"]
    versions = {key.name: value for key, value in admin.api_versions().items()}
    assert versions


def test_directories_leaders_and_voters(
    admin: kafka.admin.KafkaAdminClient, make_topic: Callable[..., str]
) -> None:
    """One directory has every log, and one broker leads every partition and votes."""
    topic = make_topic(partitions=2)
    (described,) = admin.describe_log_dirs()
    (directory,) = described["log_dirs"]
    found = {each["name"]: each["partitions"] for each in directory["topics"]}
    assert [each["partition_size"] for each in found[topic]] == [0, 0]
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0

    elected = admin.elect_leaders(0, {topic: [0, 1]}, raise_errors=False)
    (results,) = elected.replica_election_results
    assert {each.error_code for each in results.partition_result} == {
        errors.ElectionNotNeededError.errno
    }
    first = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({first: [described["broker"]]}) == {first: None}
    assert admin.list_partition_reassignments() == {}

    (metadata,) = admin.describe_metadata_quorum()["topics"]
    assert metadata["partitions"][0]["leader_id"] == described["broker"]
    assert topic in admin.list_config_resources()["topic"]
