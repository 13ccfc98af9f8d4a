"""Settings of groups, client metrics and loggers: what a running Kafka 4.3.1 answered.

`python -m tests.compared.configs` compares many more with one.
"""

from typing import Any

import pytest

from coterie.protocol.messages.list_config_resources import ListConfigResourcesRequest
from coterie.server.config.config import Config
from coterie.server.metadata.stored_settings import read_settings
from tests.unit.server.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    change,
    client_with_topic,
    describe,
    value_of,
)
from tests.unit.server.manual import Client, make_broker

LOGGER, METRICS = 8, 16
ASSIGNMENT, HEARTBEAT = "consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"


@pytest.fixture
def client() -> Client:
    return client_with_topic()


def listed(client: Client, *types: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    resources = client.call(request, version).config_resources
    return [(each.resource_type, each.resource_name) for each in resources]


class TestGroups:
    """[settings/groups]"""

    def test_every_group_has_settings(self, client: Client) -> None:
        result = describe(client, GROUP, "any")
        assert (result.error_code, len(result.configs)) == (0, 17)
        default = ("group.consumer.session.timeout.ms", "45000", 5)
        assert value_of(client, SESSION, GROUP, "any") == ("45000", 5, [default])
        name = "share.auto.offset.reset"
        assert value_of(client, name, GROUP, "any") == ("latest", 5, [(name, "latest", 5)])
        assert listed(client, GROUP) == []

    def test_own_settings(self, client: Client) -> None:
        assert change(client, GROUP, "g", (SESSION, SET, "50000")) == (0, None)
        assert value_of(client, SESSION, GROUP, "g") == (
            "50000",
            8,
            [(SESSION, "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)],
        )
        assert listed(client, GROUP) == [(GROUP, "g")]
        assert change(client, GROUP, "g", (SESSION, DELETE, None)) == (0, None)
        assert listed(client, GROUP) == []
        assert {(LOGGER, "1"), (BROKER, "1"), (2, "t")} <= set(listed(client))

    def test_the_broker_gives_the_defaults(self, client: Client) -> None:
        of_broker = "group.consumer.assignment.interval.ms"
        assert change(client, BROKER, "1", (of_broker, SET, "50")) == (0, None)
        value = ("50", 2, [(of_broker, "50", 2), (of_broker, "1000", 5)])
        assert value_of(client, ASSIGNMENT, GROUP, "g") == value

    @pytest.mark.parametrize(
        ("name", "changes", "error", "text"),
        [
            ("", [(SESSION, SET, "1")], 42, "Default group resources are not allowed."),
            ("g", [("foo", SET, "1")], 40, "Unknown group config name: foo"),
            ("g", [(SESSION, 9, "1")], -1, None),
            (
                "g",
                [(SESSION, APPEND, "1")],
                40,
                f"Can't APPEND to key {SESSION} because its type is not LIST.",
            ),
            (
                "g",
                [(SESSION, SET, "44999")],
                40,
                f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
            ),
            (
                "g",
                [("streams.num.standby.replicas", SET, "3")],
                40,
                (
                    "streams.num.standby.replicas must be less than or equal to"
                    " group.streams.max.standby.replicas"
                ),
            ),
            (
                "g",
                [("share.delivery.count.limit", SET, "1")],
                40,
                (
                    "Invalid value 1 for configuration share.delivery.count.limit: Value must be at"
                    " least 2"
                ),
            ),
            (
                "g",
                [("share.auto.offset.reset", SET, "by_duration:x")],
                40,
                (
                    "Invalid value by_duration:x for configuration share.auto.offset.reset: Invalid"
                    " value `by_duration:x` for configuration share.auto.offset.reset. The value"
                    " must be either 'earliest', 'latest' or of the format"
                    " 'by_duration:<PnDTnHnMn.nS>'."
                ),
            ),
        ],
    )
    def test_refused(
        self, client: Client, name: str, changes: list[Any], error: int, text: str
    ) -> None:
        assert change(client, GROUP, name, *changes) == (error, text)
        assert listed(client, GROUP) == []

    def test_a_session_is_longer_than_a_heartbeat(self) -> None:
        client = Client(make_broker({"group.consumer.min.session.timeout.ms": "100"}))
        expected = f"{SESSION} must be greater than {HEARTBEAT}"
        assert change(client, GROUP, "g", (SESSION, SET, "5000")) == (40, expected)
        assert change(client, GROUP, "g", (SESSION, SET, "5001")) == (0, None)

    def test_durations(self, client: Client) -> None:
        for text in ("earliest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"):
            assert change(client, GROUP, "g", ("share.auto.offset.reset", SET, text)) == (0, None)


class TestClientMetrics:
    """[settings/client-metrics]"""

    def test_a_subscription_exists_while_it_has_settings(self, client: Client) -> None:
        values = {each.name: each.value for each in describe(client, METRICS, "m").configs}
        assert values == {"interval.ms": "300000", "match": "", "metrics": ""}
        assert change(client, METRICS, "m", ("interval.ms", SET, "200")) == (0, None)
        value = ("200", 7, [("interval.ms", "200", 7)])
        assert value_of(client, "interval.ms", METRICS, "m") == value
        assert listed(client, version=0) == listed(client, METRICS) == [(METRICS, "m")]
        assert change(client, METRICS, "m", ("interval.ms", DELETE, None)) == (0, None)
        assert listed(client, METRICS) == []

    @pytest.mark.parametrize(
        ("name", "setting", "value", "error", "text"),
        [
            ("", "metrics", "a", 42, "Subscription name can't be empty"),
            ("m", "foo", "1", 42, "Unknown client metrics configuration: foo"),
            (
                "m",
                "interval.ms",
                "99",
                42,
                (
                    "Invalid value 99 for interval.ms, interval must be between 100 and 3600000"
                    " (1 hour)"
                ),
            ),
            (
                "m",
                "interval.ms",
                "x",
                40,
                "Invalid value x for configuration interval.ms: Not a number of type INT",
            ),
            ("m", "match", "zz=1", 40, "Illegal client matching pattern: zz=1"),
            ("m", "match", "client_id=[a", 40, "Illegal client matching pattern: client_id=[a"),
            ("m", "match", "client_id=a=b", 40, "Illegal client matching pattern: client_id=a=b"),
            ("m", "metrics", "a,,b", 40, "Configuration 'metrics' values must not be empty."),
        ],
    )
    def test_refused(
        self, client: Client, name: str, setting: str, value: str, error: int, text: str
    ) -> None:
        assert change(client, METRICS, name, (setting, SET, value)) == (error, text)

    def test_patterns(self, client: Client) -> None:
        for text in ("", " client_id = a ", "client_id=a,client_software_name=b.*"):
            assert change(client, METRICS, "m", ("match", SET, text)) == (0, None)


def test_groups_and_client_metrics_survive_a_restart() -> None:
    broker = make_broker()
    client = Client(broker)
    assert change(client, GROUP, "g", (SESSION, SET, "50000")) == (0, None)
    assert change(client, METRICS, "m", ("metrics", SET, "a")) == (0, None)
    stored = read_settings(broker._data.files.filesystem, broker._data.path)
    assert stored is not None
    assert stored.resources == {GROUP: {"g": {SESSION: "50000"}}, METRICS: {"m": {"metrics": "a"}}}
    config = Config()
    for kind, settings in stored.resources.items():
        config.set_resources(kind, settings)
    assert config.groups == {"g": {SESSION: "50000"}}
    assert config.client_metrics == {"m": {"metrics": "a"}}


class TestLoggers:
    """[settings/loggers]"""

    def test_levels(self, client: Client) -> None:
        name = "kafka.server.KafkaApis"
        assert value_of(client, name, LOGGER, "1") == ("INFO", 6, [])
        assert change(client, LOGGER, "1", (name, SET, "ERROR")) == (0, None)
        assert change(client, LOGGER, "1", ("root", SET, "TRACE")) == (0, None)
        assert value_of(client, name, LOGGER, "1")[0] == "ERROR"
        assert change(client, LOGGER, "1", (name, DELETE, None), only=True) == (0, None)
        assert value_of(client, name, LOGGER, "1")[0] == "ERROR"
        assert change(client, LOGGER, "1", (name, DELETE, None)) == (0, None)
        assert value_of(client, name, LOGGER, "1")[0] == "TRACE"

    @pytest.mark.parametrize(
        ("node", "changes", "error", "text"),
        [
            ("1", [("kafka.nope", SET, "INFO")], 40, "Logger kafka.nope does not exist!"),
            (
                "1",
                [("root", SET, "LOUD")],
                40,
                (
                    "Cannot set the log level of root to LOUD as it is not a supported log level."
                    " Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
                ),
            ),
            (
                "1",
                [("root", DELETE, None)],
                42,
                "Removing the log level of the root logger is not allowed",
            ),
            (
                "1",
                [("root", SUBTRACT, "INFO")],
                42,
                "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
            ),
            ("1", [("root", 9, "INFO")], -1, None),
            (
                "1",
                [("root", SET, "DEBUG"), ("nope", SET, "INFO")],
                40,
                "Logger nope does not exist!",
            ),
            ("7", [("root", SET, "INFO")], 42, "Unexpected node id. Expected 1, but received 7"),
            ("x", [("root", SET, "INFO")], 42, "Node id must be an integer, but it is: x"),
        ],
    )
    def test_refused(
        self, client: Client, node: str, changes: list[Any], error: int, text: str
    ) -> None:
        assert change(client, LOGGER, node, *changes) == (error, text)
        assert value_of(client, "root", LOGGER, "1")[0] == "INFO"

    @pytest.mark.parametrize(
        ("kind", "name", "text"),
        [
            (LOGGER, "", "Broker id must not be empty"),
            (LOGGER, "x", "Broker id must be an integer, but it is: x"),
            (LOGGER, "9", "Unexpected broker id, expected 1 but received 9"),
            (METRICS, "", "Client metrics subscription name must not be empty"),
            (GROUP, "", "Group name must not be empty"),
        ],
    )
    def test_names_that_are_not_described(
        self, client: Client, kind: int, name: str, text: str
    ) -> None:
        result = describe(client, kind, name)
        assert (result.error_code, result.error_message) == (42, text)
