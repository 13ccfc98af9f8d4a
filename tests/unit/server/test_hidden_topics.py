"""A new broker shows no topics; the group log appears when it is used [topics/offsets-topic]."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.metadata import topics
from coterie.server.metadata.topic_rules import TopicRefused
from tests.unit.server.groups import commit
from tests.unit.server.manual import Client, make_broker, restarted
from tests.unit.server.produced import fetch_request


@pytest.fixture
def client() -> Client:
    return Client(make_broker(is_new=True))


def listed(client: Client) -> list[str]:
    """Return the names of all topics."""
    return [each.name for each in client.call(MetadataRequest(topics=None), 12).topics]


def described(client: Client, *, may_create: bool) -> Any:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)], allow_auto_topic_creation=may_create
    )
    (topic,) = client.call(request, 12).topics
    return topic


def find_coordinator(client: Client, key_type: int) -> int:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
    error: int = client.call(request, 4).coordinators[0].error_code
    return error


def test_new_broker_shows_no_topics(client: Client) -> None:
    assert listed(client) == []
    topic = described(client, may_create=False)
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert topic.is_internal
    answer = client.call(fetch_request((0, 0), topic=OFFSETS_TOPIC), 12)
    error = answer.responses[0].partitions[0].error_code
    assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name=OFFSETS_TOPIC)], timeout_ms=1000
    )
    (answer,) = client.call(request, 6).responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_search_for_a_coordinator_shows_it(client: Client) -> None:
    # There is no coordinator of share groups.
    assert find_coordinator(client, 2)
    assert listed(client) == []
    assert find_coordinator(client, 0) == ErrorCode.NONE
    assert listed(client) == [OFFSETS_TOPIC]
    topic = described(client, may_create=False)
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 4)
    assert client.broker.topics.by_id[topic.topic_id].name == OFFSETS_TOPIC


def test_metadata_that_names_it_shows_it(client: Client) -> None:
    unknown = described(client, may_create=True)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(client, may_create=True).error_code == ErrorCode.NONE


def test_record_shows_it(client: Client) -> None:
    client.broker.controller.create("t", 1, {})
    assert not client.call(commit(5), 8).topics[0].partitions[0].error_code
    assert listed(client) == ["t", OFFSETS_TOPIC]


def create(client: Client, partitions: int, *, validate_only: bool = False) -> ErrorCode:
    """Create the topic as an administrator would; return the error."""
    segment = CreateTopicsRequestConfig(name="segment.bytes", value="2097152")
    topic = CreateTopicsRequestTopic(
        name=OFFSETS_TOPIC,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[segment],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
    (answer,) = client.call(request, 5).topics
    return ErrorCode(answer.error_code)


def test_creation_shows_it_with_its_settings(client: Client) -> None:
    topic_id = client.broker.topics.hidden[OFFSETS_TOPIC].topic_id
    assert create(client, 4, validate_only=True) == ErrorCode.NONE
    assert listed(client) == []
    assert create(client, 4) == ErrorCode.NONE
    assert listed(client) == [OFFSETS_TOPIC]
    topic = client.broker.topics.by_name[OFFSETS_TOPIC]
    assert topic.topic_id == topic_id
    assert topic.config.overrides["segment.bytes"] == "2097152"
    assert topic.config.overrides["cleanup.policy"] == "compact"
    assert create(client, 4) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("validate_only", [True, False])
def test_creation_cannot_change_its_partitions(client: Client, *, validate_only: bool) -> None:
    assert create(client, 3, validate_only=validate_only) == ErrorCode.INVALID_PARTITIONS
    assert listed(client) == []


def test_its_partitions_count(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_PARTITIONS", 5)
    client.broker.controller.create("t", 1, {})
    with pytest.raises(TopicRefused, match="5 partitions exist"):
        client.broker.controller.create("u", 1, {})


@pytest.mark.parametrize("killed", [False, True])
def test_next_start_shows_it(client: Client, killed: bool) -> None:
    again = Client(restarted(client.broker, killed=killed))
    assert listed(again) == [OFFSETS_TOPIC]
