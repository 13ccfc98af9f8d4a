"""Names that mean something else in a data directory: impossible, or kept over a restart.

The answers are those of Kafka 4.3.1 [topics/prohibited-names] [topics/internal-topics].
"""

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.storage.partition_directories import deleted_name
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.produced import batch, fetch_request, produce, values_of
from tests.unit.server.test_topic_changes import killed

METADATA = "__cluster_metadata"
INTERNAL = ("__transaction_state", "__share_group_state")
_HEX = "0123456789abcdef" * 2

KEPT = (
    "coterie.journal",
    "x-delete",
    f"x-0.{_HEX}-delete",
    f"x-0.{_HEX}-future",
    f"x-0.{_HEX}-stray",
    f"x-0.{_HEX}-delete-0",
    "-delete",
    "a-0",
    "a-00",
    "-",
    "-0",
    "0",
    "...",
    ".lock",
    ".kafka_cleanshutdown",
    "meta.properties",
    "coterie-settings.json",
    "coterie-boot-id",
    "log-start-offset-checkpoint",
    "__remote_log_metadata",
    *INTERNAL,
)


def create(client: Client, name: str, *, only_check: bool = False) -> tuple[int, str | None]:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], validate_only=only_check)
    (answer,) = client.call(request, 7).topics
    return answer.error_code, answer.error_message


def describe(client: Client, name: str, *, may_create: bool = False) -> tuple[int, bool, int]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create
    )
    (answer,) = client.call(request, 12).topics
    return answer.error_code, answer.is_internal, len(answer.partitions)


def delete_records(client: Client, name: str) -> int:
    asked = DeleteRecordsRequestPartition(partition_index=0, offset=-1)
    topic = DeleteRecordsRequestTopic(name=name, partitions=[asked])
    answer = client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    return int(answer.topics[0].partitions[0].error_code)


def delete(client: Client, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)], timeout_ms=1000)
    return int(client.call(request, 6).responses[0].error_code)


def test_the_metadata_log_cannot_be_created() -> None:
    client = Client(make_broker())
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for only_check in (True, False):
        assert create(client, METADATA, only_check=only_check) == (
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        )
    for may_create in (False, True):
        assert describe(client, METADATA, may_create=may_create) == (unknown, False, 0)
    assert produce(client, batch(b"a"), topic=METADATA).error_code == unknown
    assert delete_records(client, METADATA) == unknown
    assert delete(client, METADATA) == unknown
    names = client.broker._data.files.filesystem.list("memory")
    assert not [name for name in names if METADATA in name]


@pytest.mark.parametrize("name", KEPT)
def test_every_other_name_survives_a_restart(name: str) -> None:
    broker = make_broker({"auto.create.topics.enable": "true"})
    client = Client(broker)
    assert create(client, name) == (0, None)
    log = open_log(broker, name, 1)
    log.append(batch(b"kept"))
    client = Client(make_broker(filesystem=killed(broker)))
    assert describe(client, name) == (0, name in INTERNAL, 2)
    found = client.call(fetch_request((1, 0), topic=name), 12).responses[0].partitions[0]
    assert values_of(found.records) == [b"kept"]
    assert delete(client, name) == 0
    client = Client(make_broker(filesystem=killed(client.broker)))
    assert name not in client.broker.topics.by_name
    assert describe(client, name, may_create=True)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(client, name)[0] == 0


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_are_not_written_by_clients(name: str) -> None:
    client = Client(make_broker())
    create(client, name)
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce(client, batch(b"a"), topic=name).error_code == refused
    assert delete_records(client, name) == refused


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_of_a_kafka_directory_are_kept(name: str) -> None:
    """Their settings are unknown, and Kafka needs their records."""
    broker = make_broker()
    broker.controller.create(name, 1, {})
    filesystem = killed(broker)
    filesystem.remove("memory/coterie-settings.json")
    found = make_broker(filesystem=filesystem).topics.by_name[name].config
    if name == "__transaction_state":
        assert found.compact
    else:
        assert found.overrides["retention.ms"] == "-1"


def test_the_name_of_a_deleted_directory_is_no_partition() -> None:
    """No topic has a partition whose directory would be removed at the next start."""
    for name in KEPT:
        for partition in (0, 7, 19_999):
            assert not f"{name}-{partition}".endswith("-delete")
    assert deleted_name("x", 0, bytes.fromhex(_HEX)) == f"x-0.{_HEX}-delete"
