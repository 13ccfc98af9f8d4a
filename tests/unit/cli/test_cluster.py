"""`coterie cluster`: its verbs against brokers in a process, and `status` against any Kafka."""

import json
import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from coterie.cli import options
from coterie.cli.main import main
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_cluster import (
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from coterie.testing import Broker, cluster
from tests.live.deadlines import eventually
from tests.unit.cli.command import cells_of, rows_of
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.server.certificates import authority, write_certificates
from tests.unit.server.process import serving
from tests.unit.server.running import PATIENCE_S

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("cluster command")

NODES = {1, 2, 3}
VERBS = [
    ("kill", "1"),
    ("stop", "1"),
    ("start", "1"),
    ("pause", "1"),
    ("resume", "1"),
    ("move", "orders", "0", "--to", "1"),
    ("move-coordinator", "billing", "--to", "1"),
    ("elect",),
    ("cut", "orders", "0", "--to-offset", "0"),
    ("delay-metadata", "0"),
]


class Serving(NamedTuple):
    """Brokers in a process.

    Attributes:
        file: their control file.
        metrics: the URL of their metrics.
    """

    file: str
    metrics: str

    def announced(self, name: str) -> str:
        return str(json.loads(Path(self.file).read_text())[name])


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Three brokers with a topic, a control port and metrics."""
    file = str(tmp_path_factory.mktemp("control") / "control.json")
    arguments = ("--brokers", "3", "--data-dir", ":memory:", "--control", "0", "--control-file")
    with serving(*arguments, file, "--metrics-port", "0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert re.match(r"coterie \S+ ready on \S+,\S+,\S+ \(3 brokers, data in memory", lines[0])
        metrics = re.match(r"metrics on (\S+)\n", lines[1])
        assert metrics, lines
        assert re.match(r"control on http://127.0.0.1:\d+, token \S+\n", lines[2])
        # It is written after the lines.
        eventually(Path(file).exists, "the control file is there")
        created = run_in(file, "topics", "create", "orders", "--partitions", "3")
        assert created.exit_code == 0, created.output
        yield Serving(file, metrics[1])
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert not Path(file).exists()


def run_in(file: str | None, *arguments: str, **environment: str) -> Result:
    if file is not None:
        announced = json.loads(Path(file).read_text())
        environment.setdefault("COTERIE_CONTROL_FILE", file)
        environment.setdefault("COTERIE_BOOTSTRAP", announced["bootstrap_servers"])
    return CliRunner().invoke(
        main, arguments, env=environment, catch_exceptions=False, prog_name="coterie"
    )


def coterie(brokers: Serving, *arguments: str, **environment: str) -> Result:
    return run_in(brokers.file, "cluster", *arguments, **environment)


def said(brokers: Serving, *arguments: str) -> str:
    result = coterie(brokers, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, code: int = 1) -> str:
    assert result.exit_code == code, result.output
    return result.stderr


def state_of(brokers: Serving, node_id: int) -> Any:
    rows = rows_of(coterie(brokers, "status", "--json"))["brokers"]
    return next(each for each in rows if each["broker"] == node_id)


def leader(brokers: Serving, partition: int = 0) -> int | None:
    for each in rows_of(coterie(brokers, "status", "--json"))["brokers"]:
        if partition in each["leads"].get("orders", ()):
            return int(each["broker"])
    return None


# --- what the verbs do ----------------------------------------------------------------------------


def test_broker_is_killed_and_started(brokers: Serving) -> None:
    address = state_of(brokers, 2)["address"].split(":")
    assert said(brokers, "kill", "2") == "Killed broker 2.\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    dead = state_of(brokers, 2)
    assert (dead["state"], dead["live"], dead["leads"], dead["groups"]) == ("down", False, {}, [])
    scraped = urllib.request.urlopen(brokers.metrics).read().decode()
    assert 'coterie_broker_running{broker="2"} 0.0' in scraped
    assert 'kafka_server_connection_count{broker="1"}' in scraped
    error = refused(coterie(brokers, "kill", "2"))
    assert "Broker 2 does not run; those that do are 1, 3." in error
    assert "coterie cluster status" in error
    assert said(brokers, "start", "2") == "Started broker 2.\n"
    socket.create_connection(address).close()
    assert "Broker 2 runs already." in refused(coterie(brokers, "start", "2"))
    assert said(brokers, "kill", "2", "--detect-ms", "1") == (
        "Killed broker 2; the others learn of it after 1 ms.\n"
    )
    said(brokers, "start", "2")
    assert said(brokers, "stop", "2") == "Stopped broker 2.\n"
    said(brokers, "start", "2")
    assert state_of(brokers, 2)["state"] == "running"


def test_broker_is_paused(brokers: Serving) -> None:
    assert said(brokers, "pause", "3") == "Paused broker 3.\n"
    assert (state_of(brokers, 3)["state"], state_of(brokers, 3)["live"]) == ("paused", True)
    assert said(brokers, "resume", "3") == "Resumed broker 3.\n"
    assert "Broker 3 is not paused." in refused(coterie(brokers, "resume", "3"))


def test_leader_is_moved_and_elected_again(brokers: Serving) -> None:
    first = leader(brokers)
    assert first is not None
    to = next(iter(NODES - {first}))
    assert said(brokers, "move", "orders", "0", "--to", str(to)) == f"Broker {to} leads orders-0.\n"
    assert leader(brokers) == to
    replicas = f"--replicas-of={to}"
    assert refused(coterie(brokers, "move", "orders", "0", replicas), 2)
    error = refused(coterie(brokers, "move", "orders", "9", "--to", "1"))
    assert "There is no partition orders-9." in error
    error = refused(coterie(brokers, "move", "orders", "0", "--to", "7"))
    assert "There is no broker 7; there are 1, 2, 3." in error
    assert "No partition needs an election." in said(brokers, "elect", "orders")
    error = refused(coterie(brokers, "elect", "orders", "0"))
    assert "ELECTION_NOT_NEEDED" in error
    assert ".." not in error


def coordinates(brokers: Serving, node_id: int, group: str) -> bool:
    return group in state_of(brokers, node_id)["groups"]


def make_group(brokers: Serving, name: str) -> None:
    options = ("--group", name, "--topic", "orders", "--to-earliest", "--execute")
    made = run_in(brokers.file, "groups", "reset-offsets", *options)
    assert made.exit_code == 0, made.output


def test_coordinator_is_moved(brokers: Serving) -> None:
    make_group(brokers, "billing")
    for node_id in (1, 2):
        moved = said(brokers, "move-coordinator", "billing", "--to", str(node_id))
        assert moved == f"Broker {node_id} coordinates group 'billing'.\n"
        # A coordinator loads its groups first.
        eventually(partial(coordinates, brokers, node_id, "billing"), "the group is loaded")
        assert not coordinates(brokers, 3 - node_id, "billing")
    error = refused(coterie(brokers, "move-coordinator", "tx", "--to", "1", "--transactional"))
    assert "No transaction has been coordinated yet" in error


def test_log_is_cut_and_metadata_delayed(brokers: Serving) -> None:
    assert said(brokers, "cut", "orders", "1", "--to-offset", "0") == "Cut orders-1 at offset 0.\n"
    assert "outside of" in refused(coterie(brokers, "cut", "orders", "1", "--to-offset", "5"))
    assert "Only the brokers write to __consumer_offsets." in refused(
        coterie(brokers, "cut", "__consumer_offsets", "0", "--to-offset", "0")
    )
    assert "after 5 ms" in said(brokers, "delay-metadata", "5")
    assert rows_of(coterie(brokers, "status", "--json"))["metadata_delay_ms"] == 5
    said(brokers, "delay-metadata", "0")


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_verb_needs_a_control_port(verb: tuple[str, ...]) -> None:
    error = refused(run_in(None, "cluster", *verb), 2)
    assert "--control-file" in error
    assert "coterie serve --brokers 3 --control PORT" in error


@pytest.mark.parametrize(
    "wrong",
    [
        ("kill", "x"), ("kill", "-1"), ("kill",), ("start", "1e9"), ("pause", "2147483648"),
        ("move", "orders", "0"), ("move", "orders", "x", "--to", "1"),
        ("cut", "orders", "0", "--to-offset", "-1"), ("cut", "orders", "0"),
        ("delay-metadata", "-1"), ("kill", "1", "--detect-ms", "soon"), ("elect", "orders", "x"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_a_request(wrong: tuple[str, ...]) -> None:
    refused(run_in(None, "cluster", *wrong), 2)


def test_port_with_tls_and_a_token(
    brokers: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_certificates(tmp_path)
    file = tmp_path / "control.json"
    pem = tmp_path / "port.pem"
    pem.write_text(authority().issue("port", ["localhost"]).pem)
    options = ("--control", "0", "--control-file", str(file), "--http-certificate", str(pem))
    with serving("--data-dir", ":memory:", "--brokers", "2", *options):
        eventually(file.exists, "the control file")
        announced = json.loads(file.read_text())
        url = announced["control_url"].replace("127.0.0.1", "localhost")
        assert url.startswith("https://localhost:")
        named = ("kill", "2", "--control-url", url, "--control-token")
        token = announced["token"]
        error = refused(coterie(brokers, *named, token))
        assert f"The certificate of the control port at {url} is not trusted." in error
        assert "SSL_CERT_FILE" in error
        monkeypatch.setenv("SSL_CERT_FILE", files.authority)
        error = refused(coterie(brokers, "kill", "2", "--control-file", str(file)))
        assert "is not for 127.0.0.1." in error
        assert "by a host that is in its certificate" in error
        assert "the token is wrong" in refused(coterie(brokers, *named, "wrong"))
        plain = url.replace("https", "http")
        error = refused(
            coterie(brokers, "kill", "2", "--control-url", plain, "--control-token", "x")
        )
        assert "its URL begins with https://" in error
        other = brokers.announced("control_url").replace("http", "https")
        error = refused(
            coterie(brokers, "kill", "2", "--control-url", other, "--control-token", "x")
        )
        assert "its URL begins with http://" in error
        assert coterie(brokers, *named, token).output == "Killed broker 2.\n"
        status = coterie(brokers, "status", "--control-url", url, "--control-token", token)
        assert re.search(r"^2 .* down ", status.output, re.MULTILINE), status.output


def test_wrong_ways_to_the_port(brokers: Serving, tmp_path: Path) -> None:
    url = brokers.announced("control_url")
    named = ("kill", "1", "--control-url")
    error = refused(coterie(brokers, *named, url, "--control-token", "wrong"))
    assert "refuses: the token is wrong." in error
    assert "COTERIE_CONTROL_TOKEN" in error
    assert "wants a token" in refused(coterie(brokers, *named, url), 2)
    error = refused(coterie(brokers, *named, "http://127.0.0.1:1", "--control-token", "x"))
    assert "No control port reached at http://127.0.0.1:1: Connection refused." in error
    metrics = brokers.metrics.removesuffix("/metrics")
    error = refused(coterie(brokers, *named, metrics, "--control-token", "x"))
    assert "is no control port" in error
    for wrong in ("ftp://a:1", "127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:x"):
        refused(coterie(brokers, *named, wrong, "--control-token", "x"), 2)
    refused(coterie(brokers, *named, url, "--control-token", "a\nb"), 2)
    broken = tmp_path / "broken"
    broken.write_text("[]")
    for file, text in ((tmp_path / "no", "does not exist"), (broken, "no control file")):
        assert text in refused(coterie(brokers, "kill", "1", "--control-file", str(file)), 2)
    assert refused(coterie(brokers, "kill", "1", "--control-file", str(tmp_path)), 2)


def test_environment_names_the_port(brokers: Serving) -> None:
    environment = {
        "COTERIE_CONTROL_URL": brokers.announced("control_url"),
        "COTERIE_CONTROL_TOKEN": brokers.announced("token"),
    }
    result = run_in(None, "cluster", "status", "--json", **environment)
    assert len(rows_of(result)["brokers"]) == 3


def test_single_broker_has_no_such_verbs(tmp_path: Path) -> None:
    file = tmp_path / "control.json"
    arguments = ("--data-dir", ":memory:", "--control", "0", "--control-file", str(file))
    with serving(*arguments):
        eventually(file.exists, "the control file is there")
        error = refused(run_in(str(file), "cluster", "kill", "1"))
        assert "is that of a single broker" in error
        assert "--brokers 3" in error


# --- status ---------------------------------------------------------------------------------------


def test_status_as_a_table(brokers: Serving) -> None:
    table = cells_of(coterie(brokers, "status"))
    assert table[0] == ["BROKER", "ADDRESS", "STATE", "LIVE", "LEADS", "COORDINATES"]
    assert [row[0] for row in table[1:4]] == ["1", "2", "3"]
    assert {row[3] for row in table[1:4]} == {"yes"}


def test_status_of_any_kafka(brokers: Serving) -> None:
    """It says the same as the control port, as far as clients can know it."""
    bootstrap = ("--bootstrap-server", brokers.announced("bootstrap_servers"))
    of_kafka = rows_of(coterie(brokers, "status", "--json", *bootstrap))
    of_port = rows_of(coterie(brokers, "status", "--json"))
    for each in of_kafka["brokers"] + of_port["brokers"]:
        # Clients do not see all topics of the brokers themselves.
        each["leads"] = {"orders": each["leads"].get("orders")}
    assert {**of_kafka, "metadata_delay_ms": 0} == of_port


def test_status_shows_who_is_down_and_who_does_not_answer() -> None:
    with cluster(topics={"orders": 3}) as kafka:
        kafka.topic("alone", replicas=[[2]])
        kafka.kill(2)
        kafka.kill(3, detect_ms=300_000)
        result = run_in(None, "cluster", "status", COTERIE_BOOTSTRAP=kafka.address(1))
        assert [row[2:4] for row in cells_of(result)[1:4]] == [
            ["running", "yes"], ["down", "no"], ["unreachable", "yes"],
        ]  # fmt: skip
        assert "Without a leader: alone:0" in result.stderr


def test_status_of_a_single_broker() -> None:
    with Broker(topics={"orders": 2}) as kafka:
        address = kafka.bootstrap_servers
        state = rows_of(run_in(None, "cluster", "status", "--json", COTERIE_BOOTSTRAP=address))
        (broker,) = state["brokers"]
        assert (broker["address"], broker["leads"]["orders"]) == (address, [0, 1])


GROUPS = ListGroupsResponse(
    error_code=0,
    groups=[
        ListGroupsResponseGroup(group_id=name, protocol_type="consumer", group_state="Stable")
        for name in ("shop", "billing")
    ],
)


def test_status_of_an_old_kafka() -> None:
    """Kafka before 2.8 does not serve DescribeCluster and ListTransactions."""
    ranges = {
        key: each
        for key, each in SERVED_VERSIONS.items()
        if key not in (ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_TRANSACTIONS)
    }
    with FakeBroker({ApiKey.LIST_GROUPS: GROUPS}, ranges, topics={"orders": 1}) as broker:
        result = run_in(None, "cluster", "status", COTERIE_BOOTSTRAP=broker.bootstrap)
    assert cells_of(result)[1][2:] == ["running", "yes", "orders:0", "billing,shop"]


@pytest.mark.parametrize("api", [ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS])
def test_refusal_of_a_broker_ends_the_command(api: ApiKey) -> None:
    failed = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answers = {
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterResponse(
            cluster_id="c",
            brokers=[DescribeClusterResponseBroker(broker_id=1, host="h", port=1)],
            error_code=failed if api is ApiKey.DESCRIBE_CLUSTER else 0,
        ),
        ApiKey.LIST_GROUPS: ListGroupsResponse(error_code=failed, groups=[]),
    }
    with FakeBroker(answers) as broker:
        error = refused(run_in(None, "cluster", "status", COTERIE_BOOTSTRAP=broker.bootstrap))
    assert "CLUSTER_AUTHORIZATION_FAILED" in error


def test_nobody_answers_status() -> None:
    error = refused(run_in(None, "cluster", "status", COTERIE_BOOTSTRAP="127.0.0.1:1"))
    assert "No broker reached at 127.0.0.1:1" in error


# --- completion -----------------------------------------------------------------------------------


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Complete the last word, with a control file in the environment."""
    monkeypatch.setattr(options, "COMPLETION_TIMEOUT_S", PATIENCE_S)

    def values(file: str, *words: str) -> list[str]:
        monkeypatch.setenv("COTERIE_CONTROL_FILE", file)
        completer = ShellComplete(main, {}, "coterie", "_COTERIE_COMPLETE")
        return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]

    return values


def test_verbs_and_names_are_completed(
    brokers: Serving, complete: Callable[..., list[str]]
) -> None:
    file = brokers.file
    assert complete(file, "clu") == ["cluster"]
    assert complete(file, "cluster", "st") == ["status", "stop", "start"]
    assert complete(file, "cluster", "kill", "") == ["1", "2", "3"]
    assert complete(file, "cluster", "move", "orders", "0", "--to", "2") == ["2"]
    assert complete(file, "cluster", "cut", "or") == ["orders"]
    assert complete(file, "cluster", "elect", "or") == ["orders"]
    make_group(brokers, "shop")
    assert complete(file, "cluster", "move-coordinator", "sh") == ["shop"]


@pytest.mark.parametrize("file", ["/no/such/file", ""])
def test_without_a_port_there_are_no_suggestions(
    complete: Callable[..., list[str]], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(file, "cluster", "kill", "") == []
    assert capsys.readouterr() == ("", "")
