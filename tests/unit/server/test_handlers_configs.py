"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: answers as Kafka 4.3.1 gives them."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.unit.server.manual import Client, make_broker

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Outcome = tuple[int, str | None]


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.topics.create("t", 1, {})
    return client


def describe(client: Client, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = client.call(request, version).results
    return result


def value_of(client: Client, name: str, kind: int = TOPIC, resource: str = "t") -> Any:
    (config,) = describe(client, kind, resource, name).configs
    synonyms = [(each.name, each.value, each.source) for each in config.synonyms]
    return config.value, config.config_source, synonyms


def change(
    client: Client, kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = False
) -> Outcome:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestConfig(name=a, config_operation=b, value=c)
                    for a, b, c in changes
                ],
            )
        ],
        validate_only=only,
    )
    (answer,) = client.call(request, 1).responses
    return answer.error_code, answer.error_message


class TestDescribe:
    @pytest.mark.parametrize("version", range(1, 5))
    def test_a_topic(self, client: Client, version: int) -> None:
        result = describe(client, TOPIC, "t", version=version)
        assert (result.error_code, len(result.configs)) == (0, 33)
        by_name = {each.name: each for each in result.configs}
        retention = by_name["retention.ms"]
        assert (retention.value, retention.read_only, retention.config_source) == (
            "604800000",
            False,
            5,
        )
        if version >= 3:
            assert retention.config_type == 5
            assert retention.documentation

    def test_where_a_topics_value_comes_from(self, client: Client) -> None:
        default = ("log.cleanup.policy", "delete", 5)
        assert value_of(client, "cleanup.policy") == ("delete", 5, [default])
        change(client, TOPIC, "t", ("cleanup.policy", SET, "compact"))
        assert value_of(client, "cleanup.policy") == (
            "compact",
            1,
            [("cleanup.policy", "compact", 1), default],
        )
        assert value_of(client, "retention.ms") == ("604800000", 5, [])

    def test_the_brokers_static_settings_show_in_its_topics(self) -> None:
        client = Client(make_broker({"message.max.bytes": "77"}))
        client.broker.topics.create("t", 1, {})
        assert value_of(client, "max.message.bytes") == (
            "77",
            4,
            [("message.max.bytes", "77", 4), ("message.max.bytes", "1048588", 5)],
        )

    def test_the_broker(self, client: Client) -> None:
        result = describe(client, BROKER, "1")
        by_name = {each.name: each for each in result.configs}
        delay = by_name["group.initial.rebalance.delay.ms"]
        assert (delay.value, delay.config_source, delay.read_only) == ("0", 4, True)
        assert not by_name["message.max.bytes"].read_only
        assert by_name["log.retention.ms"].value is None
        assert describe(client, BROKER, "").configs == []

    def test_some_keys(self, client: Client) -> None:
        result = describe(client, TOPIC, "t", "retention.ms", "nope")
        assert [each.name for each in result.configs] == ["retention.ms"]

    def test_the_groups_topic_is_compacted(self, client: Client) -> None:
        value = value_of(client, "cleanup.policy", resource="__consumer_offsets")[:2]
        assert value == ("compact", 1)

    @pytest.mark.parametrize(
        ("kind", "name", "error", "text"),
        [
            (TOPIC, "nope", 3, None),
            (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
            (BROKER, "7", 42, "expected 1 or empty string, but received 7"),
            (BROKER, "x", 42, "Broker id must be an integer, but it is: x"),
            (3, "a", 42, "malformed by the client library"),
            (GROUP, "", 42, "Group name must not be empty"),
        ],
    )
    def test_refused(
        self, client: Client, kind: int, name: str, error: int, text: str | None
    ) -> None:
        result = describe(client, kind, name)
        assert (result.error_code, result.configs) == (error, [])
        assert result.error_message is None if text is None else text in result.error_message

    @pytest.mark.parametrize("kind", [GROUP, 8, 16])
    def test_resources_that_have_no_settings_here(self, client: Client, kind: int) -> None:
        assert describe(client, kind, "x").configs == []
        assert describe(client, kind, "x").error_code == 0


class TestIncrementalAlter:
    def test_lists_grow_and_shrink(self, client: Client) -> None:
        for operation, value, result in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
            (SUBTRACT, "compact", ""),
        ):
            assert change(client, TOPIC, "t", ("cleanup.policy", operation, value)) == (0, None)
            assert value_of(client, "cleanup.policy")[0] == result
        change(client, TOPIC, "t", ("cleanup.policy", DELETE, None))
        assert value_of(client, "cleanup.policy")[:2] == ("delete", 5)

    def test_only_checked(self, client: Client) -> None:
        assert change(client, TOPIC, "t", ("retention.ms", SET, "5"), only=True) == (0, None)
        assert value_of(client, "retention.ms")[1] == 5

    def test_what_is_changed_holds_for_open_logs(self, client: Client) -> None:
        log = client.broker.topics.by_name["t"].partitions[0].log
        change(client, TOPIC, "t", ("segment.bytes", SET, "1048576"))
        assert log.config.segment_bytes == 1_048_576

    @pytest.mark.parametrize(
        ("name", "changes", "outcome"),
        [
            (
                "t",
                [("retention.ms", SET, "abc")],
                (
                    40,
                    "Invalid value abc for configuration retention.ms: Not a number of type LONG",
                ),
            ),
            (
                "t",
                [("retention.ms", SET, "-5")],
                (40, "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
            ),
            (
                "t",
                [("retention.ms", SET, None)],
                (42, "Null value not supported for : retention.ms"),
            ),
            ("t", [("nope", SET, "5")], (40, "Unknown topic config name: nope")),
            ("t", [("nope", DELETE, None)], (0, None)),
            ("t", [("retention.ms", 7, "5")], (-1, None)),
            (
                "t",
                [("retention.ms", APPEND, "5")],
                (40, "Can't APPEND to key retention.ms because its type is not LIST."),
            ),
            (
                "t",
                [("cleanup.policy", SET, "foo")],
                (
                    40,
                    (
                        "Invalid value foo for configuration cleanup.policy:"
                        " String must be one of: compact, delete"
                    ),
                ),
            ),
            (
                "t",
                [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
                (42, "Error due to duplicate config keys"),
            ),
            ("nope", [("retention.ms", SET, "1")], (3, "The topic 'nope' does not exist.")),
            ("", [("retention.ms", SET, "1")], (42, "Default topic resources are not allowed.")),
        ],
    )
    def test_topics_refused(
        self, client: Client, name: str, changes: list[Any], outcome: Outcome
    ) -> None:
        before = value_of(client, "retention.ms")
        assert change(client, TOPIC, name, *changes) == outcome
        assert value_of(client, "retention.ms") == before

    def test_the_broker(self, client: Client) -> None:
        assert change(client, BROKER, "1", ("message.max.bytes", SET, "99")) == (0, None)
        assert value_of(client, "message.max.bytes", BROKER, "1") == (
            "99",
            2,
            [("message.max.bytes", "99", 2), ("message.max.bytes", "1048588", 5)],
        )
        assert value_of(client, "max.message.bytes")[:2] == ("99", 2)
        assert client.broker.topics.by_name["t"].config.max_message_bytes == 99
        change(client, BROKER, "1", ("message.max.bytes", DELETE, None))
        assert client.broker.topics.by_name["t"].config.max_message_bytes == 1_048_588

    @pytest.mark.parametrize(
        ("name", "setting", "error", "text"),
        [
            (
                "1",
                "group.max.size",
                42,
                "Cannot update these configs dynamically: [group.max.size]",
            ),
            ("7", "message.max.bytes", 42, "Unexpected broker id, expected 1, but received 7"),
            ("x", "message.max.bytes", 42, "Node id must be an integer, but it is: x"),
            ("1", "nope", 40, "nope is not a setting that this broker honours."),
        ],
    )
    def test_the_broker_refused(
        self, client: Client, name: str, setting: str, error: int, text: str
    ) -> None:
        assert change(client, BROKER, name, (setting, SET, "5")) == (error, text)

    def test_groups_have_no_settings_here(self, client: Client) -> None:
        setting = ("consumer.session.timeout.ms", SET, "50000")
        text = "Unknown group config name: consumer.session.timeout.ms"
        assert change(client, GROUP, "g", setting) == (40, text)
        assert change(client, GROUP, "", setting)[0] == 42
        assert change(client, 99, "g", setting) == (42, "Unknown resource type 99")

    def test_a_resource_named_twice(self, client: Client) -> None:
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=TOPIC, resource_name="t", configs=[]
        )
        request = IncrementalAlterConfigsRequest(
            resources=[resource, resource], validate_only=False
        )
        answers = client.call(request, 0).responses
        assert [(each.error_code, each.error_message) for each in answers] == [
            (42, "Each resource must appear at most once.")
        ] * 2


class TestAlter:
    def alter(self, client: Client, name: str, **values: str | None) -> Outcome:
        configs = [
            AlterConfigsRequestConfig(name=key.replace("_", "."), value=value)
            for key, value in values.items()
        ]
        resource = AlterConfigsRequestResource(
            resource_type=TOPIC, resource_name=name, configs=configs
        )
        request = AlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = client.call(request, 2).responses
        return answer.error_code, answer.error_message

    def test_it_replaces_all_settings(self, client: Client) -> None:
        assert self.alter(client, "t", retention_ms="5", segment_bytes="2000000") == (0, None)
        assert self.alter(client, "t", segment_bytes="3000000") == (0, None)
        assert client.broker.topics.by_name["t"].config.overrides == {"segment.bytes": "3000000"}
        assert self.alter(client, "t") == (0, None)
        assert client.broker.topics.by_name["t"].config.overrides == {}

    def test_refused(self, client: Client) -> None:
        assert self.alter(client, "t", retention_ms=None)[0] == ErrorCode.INVALID_REQUEST
        assert self.alter(client, "t", foo="1") == (40, "Unknown topic config name: foo")
        assert self.alter(client, "nope", retention_ms="1")[0] == 3
