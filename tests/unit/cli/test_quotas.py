"""`coterie quotas` and `coterie log-dirs`, against a broker of ours."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.cli.output import bytes_text
from tests.unit.cli.command import rows_of
from tests.unit.server.running import RunningBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with RunningBroker() as running:
        running.call(lambda: running.broker.controller.create("orders", 2, {}))
        yield running


def coterie(broker: RunningBroker, *arguments: str) -> Result:
    """Run a command of `coterie`."""
    environment = {"COTERIE_BOOTSTRAP": str(broker.address)}
    return CliRunner().invoke(
        main, arguments, env=environment, catch_exceptions=False, prog_name="coterie"
    )


def listed(
    broker: RunningBroker, *arguments: str
) -> list[tuple[dict[str, str], dict[str, float | str]]]:
    rows = rows_of(coterie(broker, "quotas", "list", *arguments, "--json"))
    return [(row["entity"], row["quotas"]) for row in rows]


def test_quotas_are_set_listed_and_removed(broker: RunningBroker) -> None:
    """[client/quotas]"""
    alice = ("--user", "alice", "--client-id-defaults")
    result = coterie(broker, "quotas", "set", "producer_byte_rate=1e9", *alice)
    assert result.stdout == "producer_byte_rate set for user=alice, client-id=<default>.\n"
    checked = coterie(broker, "quotas", "set", "request_percentage=5", *alice, "--dry-run")
    assert checked.stdout == (
        "request_percentage could be set for user=alice, client-id=<default>.\n"
    )
    coterie(broker, "quotas", "set", "connection_creation_rate=1000", "--ip", "127.0.0.1")
    quotas = {"client-id": None, "user": "alice"}, {"producer_byte_rate": 1e9}
    assert listed(broker, "--user", "alice") == [quotas]
    assert listed(broker, "--user", "alice", "--strict") == []
    lines = coterie(broker, "quotas", "list").stdout.splitlines()
    assert [line.split()[-2:] for line in lines[1:]] == [
        ["producer_byte_rate", "1000000000"],
        ["connection_creation_rate", "1000"],
    ]
    removed = coterie(broker, "quotas", "remove", "producer_byte_rate", *alice, "--json")
    assert rows_of(removed) == {
        "entity": {"user": "alice", "client-id": None},
        "removed": ["producer_byte_rate"],
        "dry_run": False,
    }
    coterie(broker, "quotas", "remove", "connection_creation_rate", "--ip", "127.0.0.1")
    assert listed(broker) == []


def test_a_quota_may_be_no_number(broker: RunningBroker) -> None:
    """[client/quotas]"""
    coterie(broker, "quotas", "set", "producer_byte_rate=nan", "--user", "alice")
    coterie(broker, "quotas", "set", "request_percentage=inf", "--user", "alice")
    lines = coterie(broker, "quotas", "list").stdout.splitlines()
    assert sorted(line.split()[-1] for line in lines[1:]) == ["inf", "nan"]
    values = {"producer_byte_rate": "nan", "request_percentage": "inf"}
    assert listed(broker) == [({"user": "alice"}, values)]
    keys = ("producer_byte_rate", "request_percentage")
    coterie(broker, "quotas", "remove", *keys, "--user", "alice")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("set", "producer_byte_rate=0", "--user", "a"), 1, "must be greater than 0"),
        (("set", "producer_byte_rate=x", "--user", "a"), 2, "'producer_byte_rate=x' is not"),
        (("set", "producer_byte_rate=1"), 2, "Name what the quotas are for"),
        (("list", "--user", "a", "--user-defaults"), 2, "Give --user or --user-defaults"),
        (("list", "--user", "a", "--ip", "1.2.3.4"), 1, "IP filter component should not be used"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    broker: RunningBroker, arguments: tuple[str, ...], code: int, text: str
) -> None:
    result = coterie(broker, "quotas", *arguments)
    assert result.exit_code == code
    assert text in result.stderr


def test_log_directories(broker: RunningBroker) -> None:
    (found,) = rows_of(coterie(broker, "log-dirs", "orders", "--json"))
    assert (found["broker"], found["error"], found["size_bytes"]) == (1, None, 0)
    assert found["topics"] == [{"topic": "orders", "partitions": 2, "size_bytes": 0}]
    assert [each["partition"] for each in found["partitions"]] == [0, 1]
    text = coterie(broker, "log-dirs", "orders").stdout.splitlines()
    assert text[0].startswith("Broker 1, ")
    assert "2 partitions, 0 B" in text[0]
    assert text[-1].split() == ["orders", "2", "0", "B"]
    assert len(coterie(broker, "log-dirs", "orders", "--partitions").stdout.splitlines()) == 4
    assert "Topic 'nope' does not exist." in coterie(broker, "log-dirs", "nope").stderr
    absent = coterie(broker, "log-dirs", "--broker", "9")
    assert absent.exit_code == 1
    assert "Broker 9 does not exist.\nThe brokers are 1." in absent.stderr


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_readable(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text
