"""`coterie topics`, against a scripted broker."""

from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsResponse, CreateTopicsResponseTopic
from coterie.protocol.messages.delete_topics import DeleteTopicsResponse, DeleteTopicsResponseTopic
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
)
from tests.unit.cli.command import cells_of, rows_of, run
from tests.unit.client.fake_broker import FakeBroker

# The bytes 0 to 15 as Kafka writes a topic id.
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
_DYNAMIC_TOPIC_CONFIG, _DEFAULT_CONFIG = 1, 5


def configured(request: Any, _: int) -> DescribeConfigsResponse:
    def config(name: str, value: str, source: int) -> DescribeConfigsResponseConfig:
        return DescribeConfigsResponseConfig(
            name=name,
            value=value,
            read_only=False,
            config_source=source,
            is_sensitive=False,
            synonyms=[],
        )

    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponseResult(
                error_code=0,
                error_message=None,
                resource_type=2,
                resource_name=resource.resource_name,
                configs=[
                    config("retention.ms", "1000", _DYNAMIC_TOPIC_CONFIG),
                    config("segment.bytes", "1073741824", _DEFAULT_CONFIG),
                ],
            )
            for resource in request.resources
        ]
    )


def creating(error: int = 0, message: str | None = None) -> Any:
    def respond(request: Any, _: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreateTopicsResponseTopic(name=t.name, error_code=error, error_message=message)
                for t in request.topics
            ]
        )

    return respond


def deleting(**errors: int) -> Any:
    def respond(request: Any, version: int) -> DeleteTopicsResponse:
        names = [t.name for t in request.topics] if version >= 6 else request.topic_names
        return DeleteTopicsResponse(
            responses=[
                DeleteTopicsResponseTopic(name=name, error_code=errors.get(name, 0))
                for name in names
            ]
        )

    return respond


def test_list_prints_names() -> None:
    with FakeBroker(topics={"b": 1, "a": 2}) as broker:
        assert run(broker, "topics", "list").stdout == "a\nb\n"
        assert cells_of(run(broker, "topics", "list", "--verbose"))[1] == ["a", "2", "1", TOPIC_ID]
        assert rows_of(run(broker, "topics", "list", "--json"))[0] == {
            "topic": "a",
            "topic_id": TOPIC_ID,
            "internal": False,
            "partition_count": 2,
            "replication_factor": 1,
        }


def test_describe_has_the_layout_of_kafkas_tool() -> None:
    with FakeBroker({ApiKey.DESCRIBE_CONFIGS: configured}, topics={"t": 2}) as broker:
        result = run(broker, "topics", "describe", "t")
        (details,) = rows_of(run(broker, "topics", "describe", "t", "--json"))
    assert result.stdout == (
        f"Topic: t\tTopicId: {TOPIC_ID}\tPartitionCount: 2\tReplicationFactor: 1\t"
        "Configs: retention.ms=1000\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
        "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    assert details["configs"] == {"retention.ms": "1000"}
    assert details["partitions"][1] == {"partition": 1, "leader": 1, "replicas": [1], "isr": [1]}


def test_describe_without_names_shows_all_topics() -> None:
    with FakeBroker({ApiKey.DESCRIBE_CONFIGS: configured}, topics={"t": 1, "u": 1}) as broker:
        rows = rows_of(run(broker, "topics", "describe", "--json"))
    assert [row["topic"] for row in rows] == ["t", "u"]


def test_describe_does_not_create_topics() -> None:
    with FakeBroker({ApiKey.DESCRIBE_CONFIGS: configured}, topics={"t": 1}) as broker:
        result = run(broker, "topics", "describe", "lost", "t")
        assert all(not r.allow_auto_topic_creation for r in broker.seen(ApiKey.METADATA))
    assert result.exit_code == 1
    assert result.stdout.startswith("Topic: t\t")
    assert "Topic 'lost' does not exist." in result.stderr


def test_create_uses_the_brokers_defaults() -> None:
    with FakeBroker({ApiKey.CREATE_TOPICS: creating()}) as broker:
        result = run(broker, "topics", "create", "t")
        run(broker, "topics", "create", "t", "--partitions", "3", "--config", "a.b=c=d,e")
        default, chosen = (request.topics[0] for request in broker.seen(ApiKey.CREATE_TOPICS))
    assert (result.exit_code, result.stdout) == (0, "Created topic 't'.\n")
    assert (default.num_partitions, default.replication_factor, default.configs) == (-1, -1, [])
    assert chosen.num_partitions == 3
    assert [(c.name, c.value) for c in chosen.configs] == [("a.b", "c=d,e")]


def test_create_sends_numbers_to_old_brokers() -> None:
    """CreateTopics before v4 has no defaults."""
    ranges = {**SERVED_VERSIONS, ApiKey.CREATE_TOPICS: (0, 3)}
    with FakeBroker({ApiKey.CREATE_TOPICS: creating()}, ranges) as broker:
        run(broker, "topics", "create", "t")
        topic = broker.seen(ApiKey.CREATE_TOPICS)[0].topics[0]
    assert (topic.num_partitions, topic.replication_factor) == (1, 1)


def test_create_of_an_existing_topic_needs_if_not_exists() -> None:
    response = creating(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    with FakeBroker({ApiKey.CREATE_TOPICS: response}) as broker:
        refused = run(broker, "topics", "create", "t")
        allowed = run(broker, "topics", "create", "t", "--if-not-exists")
        row = rows_of(run(broker, "topics", "create", "t", "--json"))
    assert refused.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in refused.stderr
    assert "--if-not-exists" in refused.stderr
    assert (allowed.exit_code, allowed.stdout) == (0, "Topic 't' already exists.\n")
    assert row == {"topic": "t", "created": False, "error": "TOPIC_ALREADY_EXISTS"}


def test_create_shows_the_brokers_message() -> None:
    response = creating(ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo")
    with FakeBroker({ApiKey.CREATE_TOPICS: response}) as broker:
        result = run(broker, "topics", "create", "t", "--config", "foo=1")
    assert "INVALID_CONFIG (Unknown topic config name: foo)" in result.stderr


@pytest.mark.parametrize("config", ["retention.ms", "=1"])
def test_create_refuses_an_invalid_config(config: str) -> None:
    result = run(None, "topics", "create", "t", "--config", config)
    assert result.exit_code == 2
    assert "is not KEY=VALUE" in result.stderr


@pytest.mark.parametrize("highest", [6, 3])
def test_delete_reports_each_topic(highest: int) -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.DELETE_TOPICS: (1, highest)}
    response = deleting(lost=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with FakeBroker({ApiKey.DELETE_TOPICS: response}, ranges) as broker:
        result = run(broker, "topics", "delete", "t", "lost")
        lenient = run(broker, "topics", "delete", "t", "lost", "--if-exists")
        rows = rows_of(run(broker, "topics", "delete", "t", "lost", "--json"))
    assert (result.exit_code, result.stdout) == (1, "Deleted topic 't'.\n")
    assert "Topic 'lost' does not exist." in result.stderr
    assert lenient.exit_code == 0
    assert rows == [
        {"topic": "t", "deleted": True, "error": None},
        {"topic": "lost", "deleted": False, "error": "UNKNOWN_TOPIC_OR_PARTITION"},
    ]


def test_delete_reports_errors_by_name() -> None:
    response = deleting(t=ErrorCode.TOPIC_DELETION_DISABLED)
    with FakeBroker({ApiKey.DELETE_TOPICS: response}) as broker:
        result = run(broker, "topics", "delete", "t", "--if-exists")
    assert result.exit_code == 1
    assert "Topic 't' was not deleted: TOPIC_DELETION_DISABLED" in result.stderr
