"""Requests that change the settings of many resources write the file of settings once."""

import gc
from time import thread_time

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.server.metadata import settings_file, stored_settings
from coterie.server.metadata.stored_settings import StoredSettings
from coterie.storage.filesystem import FileSystem
from tests.unit.server.config_requests import BROKER, GROUP, SET, TOPIC
from tests.unit.server.manual import Client, make_broker, restarted

KEY = "retention.ms"


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of topics "t..." in each write of the file."""
    counts: list[int] = []
    write = stored_settings.write_settings

    def counted(
        files: FileSystem, directory: str, settings: StoredSettings, *, durable: bool
    ) -> None:
        counts.append(sum(each.name.startswith("t") for each in settings.topics.values()))
        write(files, directory, settings, durable=durable)

    monkeypatch.setattr(settings_file, "write_settings", counted)
    return counts


def incremental(
    *resources: tuple[int, str], name: str = KEY, value: str = "1000", only_check: bool = False
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=kind,
                resource_name=resource,
                configs=[
                    IncrementalAlterConfigsRequestConfig(
                        name=name,
                        config_operation=SET,
                        value=value,
                    )
                ],
            )
            for kind, resource in resources
        ],
        validate_only=only_check,
    )


def create_topics(client: Client, count: int) -> list[tuple[int, str]]:
    for number in range(count):
        client.broker.controller.create(f"t{number}", 1, {})
    return [(TOPIC, f"t{number}") for number in range(count)]


def values(client: Client) -> set[str | None]:
    topics = client.broker.topics.by_name.values()
    return {topic.config.overrides.get(KEY) for topic in topics if topic.name.startswith("t")}


def test_settings_of_many_topics_are_one_write(client: Client, writes: list[int]) -> None:
    """[settings/one-write]"""
    topics = create_topics(client, 30)
    answer = client.call(incremental(*topics, (TOPIC, "unknown")), 1)
    errors = [each.error_code for each in answer.responses]
    assert errors == [ErrorCode.NONE] * 30 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (writes, values(client)) == ([30], {"1000"})
    again = restarted(client.broker, killed=True)
    assert values(Client(again)) == {"1000"}


def test_all_settings_of_many_topics_are_replaced_in_one_write(
    client: Client, writes: list[int]
) -> None:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterConfigsRequestConfig(name=KEY, value="7")],
            )
            for kind, name in create_topics(client, 10)
        ],
        validate_only=False,
    )
    assert {each.error_code for each in client.call(request, 1).responses} == {ErrorCode.NONE}
    assert (writes, values(client)) == ([10], {"7"})


def test_failed_write_changes_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = create_topics(client, 3)

    def fail(*_args: object, **_options: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settings_file, "write_settings", fail)
    answer = client.call(incremental(*topics, (TOPIC, "unknown")), 1)
    errors = [each.error_code for each in answer.responses]
    storage, unknown = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [storage, storage, storage, unknown]
    assert values(client) == {None}


def test_checks_write_nothing(client: Client, writes: list[int]) -> None:
    topics = create_topics(client, 3)
    answer = client.call(incremental(*topics, only_check=True), 1)
    assert {each.error_code for each in answer.responses} == {ErrorCode.NONE}
    assert (writes, values(client)) == ([], {None})


def test_groups_and_broker_of_one_request(client: Client, writes: list[int]) -> None:
    """What one of them changes does not undo what another does."""
    request = incremental((GROUP, "a"), (GROUP, "b"), name="consumer.session.timeout.ms")
    request.resources += incremental((BROKER, ""), name="log.retention.ms").resources
    for each in request.resources[:2]:
        each.configs[0].value = "50000"
    answer = client.call(request, 1)
    assert {each.error_code for each in answer.responses} == {ErrorCode.NONE}
    assert len(writes) == 1
    config = client.broker.config
    assert set(config.groups) == {"a", "b"}
    # The second one is kept for the cluster from its first change on.
    assert config.cluster_defaults == {"log.retention.ms": "1000", "min.insync.replicas": "1"}


def create(count: int, *, first: int = 0) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=f"t{number}",
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[CreateTopicsRequestConfig(name=KEY, value="1000")],
            )
            for number in range(first, first + count)
        ],
        timeout_ms=1_000,
        validate_only=False,
    )


def test_topics_are_created_with_their_settings_in_one_write(
    client: Client, writes: list[int]
) -> None:
    request = create(20)
    request.topics[3].num_partitions = 0
    request.topics[4].configs[0].value = "x"
    client.broker.controller.create("t5", 1, {KEY: "1000"})
    writes.clear()
    errors = [each.error_code for each in client.call(request, 5).topics]
    assert errors[:7] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
    ]
    # Those that are created, and the one that existed.
    assert (writes, values(client)) == ([18], {"1000"})
    again = restarted(client.broker, killed=True)
    assert (len(again.topics.by_name) >= 18, values(Client(again))) == (True, {"1000"})


def test_time_grows_with_the_number_and_not_with_its_square() -> None:
    """Four times as many topics took sixteen times as long."""

    def seconds(count: int) -> float:
        client = Client(make_broker())
        topics = create_topics(client, count)
        # A collection would search the objects of all tests, and sooner with more topics.
        gc.disable()
        try:
            began_s = thread_time()
            client.call(incremental(*topics), 1)
            return thread_time() - began_s
        finally:
            gc.enable()

    long_s = min(seconds(800) for _ in range(3))
    assert long_s < 8 * min(seconds(200) for _ in range(3))
