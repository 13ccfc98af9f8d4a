"""Metadata and the administration of topics; the answers are those of Kafka 4.3.1."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
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

ZERO = bytes(16)


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("orders", 2, {})
    return client


def topic_id(client: Client, name: str = "orders") -> bytes:
    return client.broker.topics.by_name[name].topic_id


class TestMetadata:
    def describe(self, client: Client, version: int, *topics: Any, **fields: Any) -> Any:
        asked = [
            MetadataRequestTopic(name=None, topic_id=topic)
            if isinstance(topic, bytes)
            else MetadataRequestTopic(name=topic)
            for topic in topics
        ]
        return client.call(MetadataRequest(topics=asked, **fields), version)

    @pytest.mark.parametrize("version", range(14))
    def test_topic_by_name(self, client: Client, version: int) -> None:
        answer = self.describe(client, version, "orders")
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
            (1, "127.0.0.1", 9092)
        ]
        (topic,) = answer.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
        assert [
            (each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes)
            for each in topic.partitions
        ] == [(0, 1, [1], [1]), (1, 1, [1], [1])]
        if version >= 10:
            assert topic.topic_id == topic_id(client)
        if version >= 7:
            assert topic.partitions[0].leader_epoch == 0

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

    @pytest.mark.parametrize("version", [10, 11])
    def test_ids_are_refused_before_version_12(self, client: Client, version: int) -> None:
        answer = self.describe(client, version, topic_id(client))
        assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]
        assert answer.brokers == []

    def test_topic_without_name_and_id(self, client: Client) -> None:
        (topic,) = self.describe(client, 12, ZERO).topics
        assert topic.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

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

    def test_authorized_operations_on_request(self, client: Client) -> None:
        answer = self.describe(
            client,
            8,
            "orders",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        assert answer.topics[0].topic_authorized_operations == 3576
        assert answer.cluster_authorized_operations == 8096
        assert self.describe(client, 8, "orders").topics[0].topic_authorized_operations == -(2**31)


class TestCreateTopics:
    def create(self, client: Client, name: str, version: int = 7, **fields: Any) -> Any:
        only_check = fields.pop("validate_only", False)
        values = {"num_partitions": 1, "replication_factor": 1, **fields}
        topic = CreateTopicsRequestTopic(name=name, **values)
        request = CreateTopicsRequest(topics=[topic], validate_only=only_check)
        (answer,) = client.call(request, version).topics
        return answer

    @pytest.mark.parametrize("version", range(2, 8))
    def test_topic_with_settings(self, client: Client, version: int) -> None:
        configs = [CreateTopicsRequestConfig(name="retention.ms", value="5")]
        answer = self.create(client, "new", version, num_partitions=3, configs=configs)
        topic = client.broker.topics.by_name["new"]
        assert (answer.error_code, len(topic.partitions)) == (0, 3)
        assert topic.config.overrides == {"retention.ms": "5"}
        if version >= 5:
            assert (answer.num_partitions, answer.replication_factor) == (3, 1)
            settings = {each.name: (each.value, each.config_source) for each in answer.configs}
            assert len(settings) == 33
            assert settings["retention.ms"] == ("5", 1)
            assert settings["segment.bytes"] == ("1073741824", 5)
        if version >= 7:
            assert answer.topic_id == topic.topic_id

    def test_defaults(self, client: Client) -> None:
        answer = self.create(client, "new", num_partitions=-1, replication_factor=-1)
        assert (answer.error_code, answer.num_partitions) == (0, 1)

    @pytest.mark.parametrize(
        ("name", "fields", "error", "text"),
        [
            ("orders", {}, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."),
            ("", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
            ("..", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
            ("a b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
            ("x" * 250, {}, ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed"),
            ("n", {"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS, "non-positive"),
            ("n", {"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS, "non-positive"),
            ("n", {"num_partitions": 10_001}, ErrorCode.POLICY_VIOLATION, "Excessively large"),
            ("n", {"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker"),
            ("n", {"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        ],
    )
    def test_refused_topic(
        self, client: Client, name: str, fields: Any, error: ErrorCode, text: str
    ) -> None:
        answer = self.create(client, name, **fields)
        assert answer.error_code == error
        assert text in answer.error_message
        assert (answer.num_partitions, answer.topic_id) == (-1, ZERO)

    @pytest.mark.parametrize(
        ("config", "value", "text"),
        [
            ("nope", "1", "Unknown topic config name: nope"),
            ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
            (
                "retention.ms",
                "x",
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "segment.bytes",
                "13",
                "Invalid value 13 for configuration segment.bytes: Value must be at least 1048576",
            ),
        ],
    )
    def test_refused_settings(
        self, client: Client, config: str, value: str | None, text: str
    ) -> None:
        answer = self.create(
            client, "n", configs=[CreateTopicsRequestConfig(name=config, value=value)]
        )
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, text)

    def test_names_that_differ_only_in_a_period_collide(self, client: Client) -> None:
        self.create(client, "a.b")
        answer = self.create(client, "a_b")
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert answer.error_message == "Topic 'a_b' collides with existing topic: a.b"

    def test_name_given_twice(self, client: Client) -> None:
        topic = CreateTopicsRequestTopic(name="n", num_partitions=1, replication_factor=1)
        (answer,) = client.call(CreateTopicsRequest(topics=[topic, topic]), 7).topics
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Duplicate topic name.",
        )
        assert "n" not in client.broker.topics.by_name

    def test_number_of_all_partitions_is_limited(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("coterie.server.metadata.topics.MAX_PARTITIONS", 8)
        assert self.create(client, "a", num_partitions=2).error_code == 0
        answer = self.create(client, "b", num_partitions=1)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert answer.error_message == "8 partitions exist; this broker holds at most 8."


class TestDeleteTopics:
    def delete(self, client: Client, *topics: DeleteTopicsRequestTopic) -> list[Any]:
        request = DeleteTopicsRequest(topics=list(topics), timeout_ms=1000)
        answers: list[Any] = client.call(request, 6).responses
        return answers

    @pytest.mark.parametrize(
        ("topic", "error"),
        [
            ({"name": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"name": None, "topic_id": b"\1" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
            ({"name": None}, ErrorCode.INVALID_REQUEST),
            ({"name": "orders", "topic_id": b"\1" * 16}, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_refused_deletion(
        self, client: Client, topic: dict[str, Any], error: ErrorCode
    ) -> None:
        (answer,) = self.delete(client, DeleteTopicsRequestTopic(**topic))
        assert answer.error_code == error
        assert answer.error_message
        assert "orders" in client.broker.topics.by_name

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


class TestCreatePartitions:
    def add(self, client: Client, count: int, name: str = "orders", **fields: Any) -> Any:
        only_check = fields.pop("validate_only", False)
        topic = CreatePartitionsRequestTopic(name=name, count=count, **fields)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=only_check)
        (result,) = client.call(request, 3).results
        return result

    def test_group_log_is_only_checked(self, client: Client) -> None:
        assert self.add(client, 60, "__consumer_offsets", validate_only=True).error_code == 0

    @pytest.mark.parametrize(
        ("count", "name", "error", "text"),
        [
            (2, "orders", ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            (
                1,
                "orders",
                ErrorCode.INVALID_PARTITIONS,
                "The topic orders currently has 2 partition(s); 1 would not be an increase.",
            ),
            (3, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
            (
                9,
                "__consumer_offsets",
                ErrorCode.INVALID_PARTITIONS,
                "The number of partitions of __consumer_offsets is fixed once it exists.",
            ),
        ],
    )
    def test_refused_numbers(
        self, client: Client, count: int, name: str, error: ErrorCode, text: str | None
    ) -> None:
        result = self.add(client, count, name)
        assert (result.error_code, result.error_message) == (error, text)


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

    def test_pages(self, client: Client) -> None:
        client.broker.controller.create("more", 3, {})
        names = ("orders", "more", "nope", "nope")
        assert self.page(client, *names) == (
            [(0, "more", [0, 1, 2]), (3, "nope", []), (0, "orders", [0, 1])],
            None,
        )
        assert self.page(client, *names, limit=2) == ([(0, "more", [0, 1])], ("more", 2))
        assert self.page(client, *names, limit=2, cursor=("more", 2)) == (
            [(0, "more", [2]), (3, "nope", []), (0, "orders", [0])],
            ("orders", 1),
        )
        assert self.page(client, *names, limit=2, cursor=("orders", 1)) == (
            [(0, "orders", [1])],
            None,
        )

    def test_all_topics(self, client: Client) -> None:
        assert self.page(client, limit=4) == (
            [(0, "__consumer_offsets", [0, 1, 2, 3])],
            ("orders", 0),
        )

    def test_invalid_limits_and_cursors(self, client: Client) -> None:
        assert self.page(client, "orders", limit=0) == ([(0, "orders", [0])], ("orders", 1))
        assert self.page(client, "orders", cursor=("orders", 9)) == ([(0, "orders", [])], None)
        for cursor in (("orders", -1), ("aaa", 0)):
            topics, following = self.page(client, "orders", cursor=cursor)
            assert topics == [(ErrorCode.INVALID_REQUEST, "orders", [])]
            assert following is None
        assert self.page(client, "bad name")[0] == [(17, "bad name", [])]
