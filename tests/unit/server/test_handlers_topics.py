"""Topics under other settings, and their limits; the rest is in `tests/golden/answers`.

Rules: [topics/offsets-topic], [topics/partition-limits], [topics/auto-creation],
[topics/metadata-by-id].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.server.handlers.metadata import MOST_CREATED
from tests.unit.server.manual import Client, make_broker


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("orders", 2, {})
    return client


class TestMetadata:
    def describe(self, client: Client, version: int, *topics: str, **fields: Any) -> Any:
        asked = [MetadataRequestTopic(name=topic) for topic in topics]
        return client.call(MetadataRequest(topics=asked, **fields), version)

    def test_all_topics(self, client: Client) -> None:
        for version, request in (
            (0, MetadataRequest(topics=[])),
            (1, MetadataRequest(topics=None)),
            (12, MetadataRequest(topics=None)),
        ):
            answer = client.call(request, version)
            assert [each.name for each in answer.topics] == ["__consumer_offsets", "orders"]
            assert [each.is_internal for each in answer.topics] == [version > 0, False]
        assert client.call(MetadataRequest(topics=[]), 1).topics == []

    def test_request_creates_a_missing_topic(self, client: Client) -> None:
        (first,) = self.describe(client, 9, "new").topics
        assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (second,) = self.describe(client, 9, "new").topics
        assert (second.error_code, len(second.partitions)) == (0, 1)

    @pytest.mark.parametrize("version", [0, 3])
    def test_old_versions_always_create_topics(self, client: Client, version: int) -> None:
        self.describe(client, version, f"new{version}")
        assert f"new{version}" in client.broker.topics.by_name

    def test_client_and_broker_can_forbid_creation(self, client: Client) -> None:
        (topic,) = self.describe(client, 9, "new", allow_auto_topic_creation=False).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        other = Client(make_broker({"auto.create.topics.enable": "false"}))
        self.describe(other, 9, "new")
        for each in (client, other):
            assert "new" not in each.broker.topics.by_name

    def test_one_request_creates_a_limited_number_of_topics(self, client: Client) -> None:
        names = [f"n{number}" for number in range(MOST_CREATED + 50)]
        answer = self.describe(client, 9, *names)
        assert {each.error_code for each in answer.topics} == {3}
        assert len(client.broker.topics.by_name) == 2 + MOST_CREATED
        answer = self.describe(client, 9, *names)
        assert sorted({each.error_code for each in answer.topics}) == [0, 3]
        assert len(client.broker.topics.by_name) == 2 + len(names)


class TestCreateTopics:
    def create(self, client: Client, name: str, count: int) -> Any:
        topic = CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
        (answer,) = client.call(CreateTopicsRequest(topics=[topic]), 7).topics
        return answer

    def test_number_of_all_partitions_is_limited(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("coterie.server.metadata.topics.MAX_PARTITIONS", 8)
        assert self.create(client, "a", 2).error_code == 0
        answer = self.create(client, "b", 1)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert answer.error_message == "8 partitions exist; this broker holds at most 8."


class TestDeleteTopics:
    def delete(self, client: Client, *topics: DeleteTopicsRequestTopic) -> list[Any]:
        request = DeleteTopicsRequest(topics=list(topics), timeout_ms=1000)
        answers: list[Any] = client.call(request, 6).responses
        return answers

    def test_deletion_can_be_disabled(self) -> None:
        client = Client(make_broker({"delete.topic.enable": "false"}))
        client.broker.controller.create("orders", 1, {})
        asked = [DeleteTopicsRequestTopic(name=name) for name in ("nope", "orders", "orders")]
        asked.append(DeleteTopicsRequestTopic(name=None, topic_id=b"\1" * 16))
        answers = self.delete(client, *asked)
        assert [(each.name, each.topic_id) for each in answers] == [
            (each.name, each.topic_id) for each in asked
        ]
        disabled = (ErrorCode.TOPIC_DELETION_DISABLED, None)
        assert all((each.error_code, each.error_message) == disabled for each in answers)

    @pytest.mark.parametrize(("version", "error"), [(1, 42), (2, 42), (3, 73), (5, 73)])
    def test_older_versions_say_that_deletion_is_disabled(self, version: int, error: int) -> None:
        client = Client(make_broker({"delete.topic.enable": "false"}))
        request = DeleteTopicsRequest(topic_names=["nope", "nope"], timeout_ms=1000)
        answers = client.call(request, version).responses
        assert [(each.name, each.error_code) for each in answers] == [("nope", error)] * 2

    @pytest.mark.parametrize("name_first", [False, True])
    def test_a_topic_that_is_named_and_identified_stays(
        self, client: Client, name_first: bool
    ) -> None:
        """[topics/deletion]"""
        topic_id = client.broker.topics.by_name["orders"].topic_id
        asked = [
            DeleteTopicsRequestTopic(name="orders"),
            DeleteTopicsRequestTopic(name=None, topic_id=topic_id),
        ]
        answers = self.delete(client, *(asked if name_first else reversed(asked)))
        assert [(each.name, each.topic_id, each.error_code) for each in answers] == [
            ("orders", topic_id, ErrorCode.INVALID_REQUEST)
        ]
        assert answers[0].error_message == (
            "The provided topic name maps to an ID that was already supplied."
        )
        assert "orders" in client.broker.topics.by_name

    def test_a_name_twice_does_not_refuse_the_id(self, client: Client) -> None:
        """[topics/deletion]"""
        topic_id = client.broker.topics.by_name["orders"].topic_id
        twice = [DeleteTopicsRequestTopic(name="orders")] * 2
        answers = self.delete(client, *twice, DeleteTopicsRequestTopic(topic_id=topic_id))
        assert [(each.topic_id, each.error_message) for each in answers] == [
            (bytes(16), "Duplicate topic name."), (topic_id, None)
        ]  # fmt: skip

    def test_entries_that_name_no_topic_are_answered_each_time(self, client: Client) -> None:
        """[topics/deletion]"""
        both = DeleteTopicsRequestTopic(name="orders", topic_id=b"\1" * 16)
        answers = self.delete(client, both, DeleteTopicsRequestTopic(), both)
        assert sorted(each.error_message for each in answers) == [
            "Neither topic name nor id were specified.",
            "You may not specify both topic name and topic id.",
            "You may not specify both topic name and topic id.",
        ]


def test_partitions_of_the_group_log_are_fixed(client: Client) -> None:
    topic = CreatePartitionsRequestTopic(name="__consumer_offsets", count=9)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    (result,) = client.call(request, 3).results
    assert result.error_code == ErrorCode.INVALID_PARTITIONS
    assert result.error_message == (
        "The number of partitions of __consumer_offsets is fixed once it exists."
    )


class TestDescribeTopicPartitions:
    def page(
        self, client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
    ) -> tuple[list[tuple[int, str, list[int]]], tuple[str, int] | None]:
        at = cursor and DescribeTopicPartitionsRequestCursor(
            topic_name=cursor[0], partition_index=cursor[1]
        )
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in names],
            response_partition_limit=limit,
            cursor=at or None,
        )
        answer = client.call(request, 0)
        following = answer.next_cursor
        return [
            (each.error_code, each.name, [p.partition_index for p in each.partitions])
            for each in answer.topics
        ], following and (following.topic_name, following.partition_index)

    def test_size_of_a_page_is_limited_by_a_setting(self) -> None:
        client = Client(make_broker({"max.request.partition.size.limit": "2"}))
        client.broker.controller.create("many", 3, {})
        assert self.page(client, "many") == ([(0, "many", [0, 1])], ("many", 2))

    def test_all_topics(self, client: Client) -> None:
        assert self.page(client, limit=4) == (
            [(0, "__consumer_offsets", [0, 1, 2, 3])],
            ("orders", 0),
        )
