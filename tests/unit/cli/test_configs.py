"""`coterie configs`, against a broker of ours and, for old brokers, a scripted one."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.messages.list_config_resources import (
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)
from tests.unit.cli.command import rows_of, run
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.server.running import RunningBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with RunningBroker() as running:
        running.call(lambda: running.broker.controller.create("orders", 1, {}))
        yield running


def configs(broker: RunningBroker, *arguments: str) -> Result:
    """Run `coterie configs`."""
    environment = {"COTERIE_BOOTSTRAP": str(broker.address)}
    return CliRunner().invoke(
        main, ("configs", *arguments), env=environment, catch_exceptions=False, prog_name="coterie"
    )


def settings(broker: RunningBroker, *arguments: str) -> dict[str, Any]:
    """Return the values and sources that `coterie configs describe` shows, by key."""
    rows = rows_of(configs(broker, "describe", *arguments, "--json"))
    return {row["key"]: (row["value"], row["source"]) for row in rows}


def test_settings_of_a_topic(broker: RunningBroker) -> None:
    altered = configs(
        broker, "alter", "topics", "orders", "--set", "retention.ms=5", "--append",
        "cleanup.policy=compact",
    )  # fmt: skip
    assert altered.stdout == "Topic 'orders': 2 altered.\n"
    shown = {"retention.ms": ("5", "topic"), "cleanup.policy": ("delete,compact", "topic")}
    assert settings(broker, "topics", "orders") == shown
    assert len(settings(broker, "topics", "orders", "--all")) == 33
    assert settings(broker, "topics", "orders", "--key", "segment.ms") == {
        "segment.ms": ("604800000", "default")
    }
    lines = configs(broker, "describe", "topics", "orders").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "KEY", "VALUE", "SOURCE"],
        ["orders", "cleanup.policy", "delete,compact", "topic"],
        ["orders", "retention.ms", "5", "topic"],
    ]
    both = ("--delete", "retention.ms", "--delete", "cleanup.policy")
    assert configs(broker, "alter", "topics", "orders", *both).exit_code == 0
    assert settings(broker, "topics") == {}


@pytest.mark.parametrize(
    ("resource", "key", "value", "source"),
    [
        (("brokers", "1"), "message.max.bytes", "77", "broker"),
        (("brokers", "--default"), "message.max.bytes", "78", "cluster"),
        (("groups", "g"), "consumer.session.timeout.ms", "50000", "group"),
        (("client-metrics", "m"), "interval.ms", "200", "client-metrics"),
        (("broker-loggers", "1"), "kafka.log.LogManager", "DEBUG", "logger"),
    ],
)
def test_settings_of_others(
    broker: RunningBroker, resource: tuple[str, ...], key: str, value: str, source: str
) -> None:
    dry = configs(broker, "alter", *resource, "--set", f"{key}={value}", "--dry-run")
    assert dry.stdout.endswith("1 would be altered.\n")
    assert settings(broker, *resource).get(key) != (value, source)
    assert configs(broker, "alter", *resource, "--set", f"{key}={value}").exit_code == 0
    assert settings(broker, *resource)[key] == (value, source)
    assert configs(broker, "alter", *resource, "--delete", key).exit_code == 0
    assert settings(broker, *resource).get(key) != (value, source)


def test_documentation(broker: RunningBroker) -> None:
    result = configs(
        broker, "describe", "brokers", "1", "--key", "num.partitions", "--documentation"
    )
    first, second = result.stdout.splitlines()
    assert first == "num.partitions = 1  (default)"
    assert second.startswith("    Partitions of a topic")


def test_list(broker: RunningBroker) -> None:
    change = ("--set", "streams.num.standby.replicas=1")
    assert configs(broker, "alter", "groups", "a b", *change).exit_code == 0
    rows = rows_of(configs(broker, "list", "--json"))
    found = {(row["type"], row["name"]) for row in rows}
    assert {
        ("topics", "orders"),
        ("brokers", "1"),
        ("broker-loggers", "1"),
        ("groups", "a b"),
    } <= found
    assert rows_of(configs(broker, "list", "brokers", "--json")) == [
        {"type": "brokers", "name": "1"}
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["alter", "topics", "orders", "--set", "nope=1"], "Unknown topic config name: nope"),
        (["alter", "brokers", "9", "--set", "a=1"], "Broker '9' does not exist.\nThe brokers are"),
        (["alter", "groups", "g", "--set", "foo=1"], "Group 'g' was not changed: INVALID_CONFIG"),
        (["describe", "topics", "nope"], "Topic 'nope': UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_refusals(broker: RunningBroker, arguments: list[str], text: str) -> None:
    result = configs(broker, *arguments)
    assert result.exit_code == 1
    assert text in result.stderr


def test_a_refusal_is_printed_as_json_too(broker: RunningBroker) -> None:
    result = configs(broker, "alter", "topics", "orders", "--set", "nope=1", "--json")
    assert result.exit_code == 1
    assert rows_of(result) == {
        "type": "topics",
        "name": "orders",
        "altered": False,
        "error": "INVALID_CONFIG",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["alter", "topics", "orders"],
        ["alter", "topics", "orders", "--set", "retention.ms"],
        ["alter", "topics", "--set", "a=1"],
        ["alter", "topics", "--default", "--set", "a=1"],
        ["alter", "brokers", "1", "--default", "--set", "a=1"],
        ["describe", "topics", "--default"],
        ["describe", "things"],
    ],
)
def test_wrong_command_lines(broker: RunningBroker, arguments: list[str]) -> None:
    assert configs(broker, *arguments).exit_code == 2


def test_an_older_broker_lists_no_groups() -> None:
    listed = ListConfigResourcesResponse(
        error_code=0, config_resources=[ListConfigResourcesResponseResource(resource_name="m")]
    )
    ranges = {**SERVED_VERSIONS, ApiKey.LIST_CONFIG_RESOURCES: (0, 0)}
    responses = {ApiKey.LIST_CONFIG_RESOURCES: listed}
    with FakeBroker(responses, ranges=ranges, topics={"t": 1}) as broker:
        result = run(broker, "configs", "list")
        assert result.stdout.split() == [
            *("TYPE", "NAME", "topics", "t", "brokers", "1", "broker-loggers", "1"),
            *("client-metrics", "m"),
        ]
        assert result.stderr == "This broker does not list groups with settings.\n"
        assert run(broker, "configs", "list", "groups").exit_code == 1
