"""A broker in a process of its own, with real clients, over its control port."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from coterie.cli.serve import command
from coterie.server.network.http_exchange import BODY_BYTES
from coterie.testing import (
    AnswerError,
    Broker,
    BrokerNotStarted,
    ProcessBroker,
    RequestNotSeen,
    Security,
    WaitTimedOut,
    WrongUse,
)
from tests.live.deadlines import eventually
from tests.live.testing.consumers import confluent, kafka_python
from tests.unit.server.process import COMMAND, started
from tests.unit.server.running import PATIENCE_S

# They share a broker.
pytestmark = pytest.mark.xdist_group("process-broker")

# A process starts and ends in a second, and in many of them on a machine with other work.
END_LIMIT_S = 90.0
PARENT = """
import sys
from coterie.testing import ProcessBroker
kafka = ProcessBroker().start()
print(kafka.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[ProcessBroker]:
    """A broker with a topic of two partitions."""
    with ProcessBroker(topics={"t": 2}) as running:
        yield running


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A process that ended and was not waited for is still listed.
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_verbs_are_those_of_a_broker_in_a_thread(shared: ProcessBroker) -> None:
    shared.topic("u", partitions=2, records=["a", b"\xff", None])
    assert (shared.topics["u"], shared.produce("u", "b", key="k", headers=[("h", b"1")])) == (2, 2)
    assert [each.value for each in shared.records("u", 0)] == [b"a", None, b"b"]
    shared.delete_topic("u")
    with pytest.raises(WrongUse, match="topic 'u' does not exist"):
        shared.records("u")
    group = shared.group("none")
    assert (group.state, group.members, group.history) == ("Dead", (), [])
    with pytest.raises(WaitTimedOut, match="group 'none' does not exist"):
        group.wait_stable(timeout_s=0.01)
    with pytest.raises(RequestNotSeen, match="no DeleteGroups was sent"):
        shared.requests.last("DeleteGroups")
    shared.advance(1)


def test_group_of_a_client_is_seen_and_rebalanced(shared: ProcessBroker) -> None:
    with kafka_python(shared, "g", "t", client_id="a", session_timeout_ms=20_000) as values:
        group = shared.group("g").wait_assigned("t").result
        assert set(group.assignment) == {("t", 0), ("t", 1)}
        assert group.assignment["t", 0] == group.members[0]
        shared.produce("t", "x")
        group.wait_committed({("t", 0): 1})
        assert (values, group.offsets["t", 0], group.lag["t", 0]) == ([b"x"], 1, 0)
        before = group.generation
        group.rebalance()
        assert group.wait_rebalanced(before).result.generation > before
        assert group.history[0].trigger.cause == "join"
        group.expel("a")
        group.wait_assigned("t")
    group.wait_empty()
    join = shared.requests.last("JoinGroup", client_id="a")
    assert (join.group_id, join.session_timeout_ms) == ("g", 20_000)


def test_fault_is_met_by_a_client(shared: ProcessBroker) -> None:
    error = AnswerError("COORDINATOR_LOAD_IN_PROGRESS")
    with shared.fault(error, api="JoinGroup", times=2) as fault, confluent(shared, "f", "t"):
        assert shared.faults == [fault]
        shared.group("f").wait_assigned()
        fault.must_have_hit(2)
    assert fault.is_removed
    assert shared.faults == []


def test_waits_are_awaited_in_a_coroutine(shared: ProcessBroker) -> None:
    async def wait() -> None:
        empty, stable = shared.group("c").wait_empty(), shared.group("c").wait_stable(timeout_s=0.1)
        assert (await empty).group_id == "c"
        with pytest.raises(WaitTimedOut):
            await stable

    asyncio.run(wait())


@pytest.mark.kafka(process=True, topics={"orders": 3})
def test_mark_gives_a_test_a_process(kafka: Broker) -> None:
    assert isinstance(kafka, ProcessBroker)
    assert kafka.topics == {"orders": 3}


def test_broker_pretends_to_be_an_older_release() -> None:
    with ProcessBroker(version="2.8", topics={"t": 1}) as kafka, confluent(kafka, "g", "t"):
        kafka.group("g").wait_assigned("t")
        assert kafka.requests.last("Metadata").version <= 11


def test_kill_is_a_real_one_and_keeps_what_was_written() -> None:
    with ProcessBroker(topics={"t": 1}, features={"transaction.version": 0}) as kafka:
        address, pid = kafka.bootstrap_servers, kafka.pid
        kafka.produce("t", "a")
        assert "transaction.version" not in kafka.features
        kafka.set_features({"transaction.version": 1})
        fault = kafka.fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat")
        kafka.kill()
        assert has_ended(pid)
        assert (kafka.bootstrap_servers, kafka.pid != pid) == (address, True)
        assert (fault.is_removed, fault.hits) == (True, 0)
        kafka.restart()
        assert [each.value for each in kafka.records("t")] == [b"a"]
        assert kafka.features["transaction.version"] == 1
        directory = kafka._temporary
        pid = kafka.pid
    assert directory is not None
    assert not os.path.exists(directory)
    assert has_ended(pid)


def test_process_ends_with_its_parent() -> None:
    with started(sys.executable, "-c", PARENT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait(PATIENCE_S)
        eventually(lambda: has_ended(pid), "the end of the broker's process", END_LIMIT_S)


def test_unusable_places_and_early_ends_are_errors() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerNotStarted, match=f"127.0.0.1:{port} is in use"):
            ProcessBroker(port=port).start()
    with pytest.raises(BrokerNotStarted, match="does not run"):
        _ = ProcessBroker().bootstrap_servers
    kafka = ProcessBroker().start()
    with pytest.raises(WrongUse, match=r"use Broker\(\), or advance"):
        kafka.virtual_time()
    with pytest.raises(WrongUse, match="runs already"):
        kafka.start()
    os.kill(kafka.pid, signal.SIGKILL)
    with pytest.raises(BrokerNotStarted, match=r"has ended by itself|does not answer"):
        kafka.close()
    kafka.close()


def asked(announced: Any, path: str, **headers: str) -> tuple[int, Any]:
    """Return the status and the JSON of an answer."""
    token = {"Authorization": f"Bearer {announced['token']}"}
    request = urllib.request.Request(announced["control_url"] + path, headers={**token, **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def upload(announced: Any, size_bytes: int) -> tuple[int, str]:
    """Send a body with curl, which sends all of it; return its exit code and the status."""
    done = subprocess.run(
        [
            "curl", "--silent", "--output", os.devnull, "--write-out", "%{http_code}",
            "--header", "Content-Type: application/json",
            "--header", f"Authorization: Bearer {announced['token']}",
            "--data-binary", "@-", announced["control_url"] + "/topics",
        ],
        input=b" " * size_bytes, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode()


def test_control_port_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "control.json"
    options = ("--port", "0", "--data-dir", ":memory:", "--control", "0")
    with started(*COMMAND, *options, "--control-file", str(file), COTERIE_NUM_PARTITIONS="7") as it:
        assert it.stdout is not None
        assert "ready on 127.0.0.1:" in it.stdout.readline()
        line = it.stdout.readline()
        eventually(file.exists, "the control file", PATIENCE_S)
        announced = json.loads(file.read_text())
        assert line == f"control on {announced['control_url']}, token {announced['token']}\n"
        assert file.stat().st_mode & 0o777 == 0o600
        assert asked(announced, "/topics") == (200, {})
        assert asked(announced, "/topics", Authorization="Bearer x")[0] == 401
        assert asked(announced, "/topics", Host="evil.example")[0] == 403
        assert {upload(announced, 2 * BODY_BYTES) for _ in range(4)} == {(0, "413")}
        assert asked(announced, "/ready")[1]["bootstrap_servers"] == announced["bootstrap_servers"]
        it.send_signal(signal.SIGTERM)
        assert it.wait(END_LIMIT_S) == 0
        assert not file.exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--control-file", "x"), "--control-file needs --control PORT"),
        (("--control", "0", "--control-token", "a b"), "printable ASCII characters"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], text: str) -> None:
    ended = CliRunner().invoke(command, ["--port", "0", "--data-dir", ":memory:", *options])
    assert (ended.exit_code, text in ended.output) == (2, True)


def test_control_file_that_cannot_be_written_ends_the_start() -> None:
    options = ("--port", "0", "--data-dir", ":memory:", "--control", "0")
    with started(*COMMAND, *options, "--control-file", "/no/such/file") as process:
        _, errors = process.communicate(timeout=END_LIMIT_S)
    assert process.returncode == 1
    assert "--control-file /no/such/file can't be written: No such file" in errors


def test_control_is_not_imported_without_its_option() -> None:
    code = (
        "import sys, threading, os, signal\n"
        "import coterie.server.run as run, coterie.cli.main, coterie.cli.serve\n"
        "assert not any(name.startswith(('coterie.control', 'coterie.testing', 'uvicorn'))"
        " for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_users_of_a_process_log_in_until_they_are_revoked(mechanism: str) -> None:
    security = Security("SASL_SSL", mechanism=mechanism)
    users = {"alice": 'a"= b', "bob": ""}
    with ProcessBroker(security=security, users=users, topics={"t": 1}) as kafka:
        assert topics_of(kafka, "alice") == {"t"}
        kafka.add_user("carol")
        assert kafka.users == ["alice", "bob", "carol"]
        kafka.revoke("alice")
        for again in (lambda: None, kafka.restart, kafka.kill):
            again()
            assert topics_of(kafka, "alice") is None
            assert topics_of(kafka, "carol") == {"t"}
            assert kafka.users == ["bob", "carol"]
        kafka.use_certificate("expired")
        assert topics_of(kafka, "carol") is None
        kafka.use_certificate("valid")
        assert topics_of(kafka, "carol") == {"t"}
        with pytest.raises(WrongUse, match="'alice' is no user of this broker"):
            kafka.revoke("alice")


def test_access_rules_of_a_process() -> None:
    rule = "User:ANONYMOUS ALLOW DESCRIBE TOPIC t LITERAL host=*"
    with ProcessBroker(acls=[rule], topics={"t": 1}) as kafka:
        assert kafka.acls == [rule]
        assert topics_of(kafka) == {"t"}
        kafka.remove_acls(rule)
        assert kafka.acls == []
        assert topics_of(kafka) == set()
        with pytest.raises(WrongUse, match="no such rule"):
            kafka.remove_acls(rule)


def test_a_process_without_security_has_no_users_and_certificates(shared: ProcessBroker) -> None:
    assert shared.users == []
    with pytest.raises(WrongUse, match="this broker has no logins"):
        shared.add_user("alice")
    with pytest.raises(WrongUse, match="this broker has no certificate"):
        shared.reload_certificates()
    with pytest.raises(WrongUse, match="this broker has no authorizer"):
        shared.add_acls("User:alice ALLOW READ TOPIC t")


def topics_of(kafka: ProcessBroker, user: str | None = None) -> set[str] | None:
    """Return the topics that a client sees; None if it cannot connect."""
    config = kafka.client_config("kafka-python", user=user, bootstrap_timeout_ms=1_000)
    try:
        consumer = KafkaConsumer(**config)
    except KafkaTimeoutError:
        return None
    with closing(consumer):
        return set(consumer.topics())
