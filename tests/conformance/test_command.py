"""`coterie check` as its users see it: output, exit codes, and what it says of other servers."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import fromstring

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.conformance.over_tcp import diagnosis, driver
from coterie.conversation.syntax import TranscriptError
from coterie.testing import AnswerError, Broker, CloseBefore

ONE = "api_versions/again"


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker() as broker:
        yield f"{broker.host}:{broker.port}"


def test_result_is_json_for_programs(address: str, tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "page.html"
    result = check(address, "--only", ONE, "--json", "--junit", str(junit), "--html", str(page))
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["broker"], data["kafka_version"]) == (address, "4.3")
    (row,) = data["checks"]
    assert (row["name"], row["area"], row["status"], row["reason"]) == (
        ONE,
        "api_versions",
        "pass",
        "",
    )
    assert row["source"] == "KIP-35"
    assert row["conversation"][0].startswith("c1> ApiVersions v0")
    assert fromstring(junit.read_text(encoding="utf-8")).get("tests") == "1"
    assert ONE in page.read_text(encoding="utf-8")


def test_table_by_area_is_for_people(address: str) -> None:
    result = check(address, "--only", "coordinators", "--only", ONE)
    assert result.exit_code == 0, result.output
    assert "coordinators" in result.stdout
    assert "0 deviates, 0 fails, 3 skipped" in result.stdout
    assert "holds until Kafka 2.6, and the expectations are those of Kafka 4.3" in result.stdout


def test_deviation_is_shown_field_by_field_and_ends_with_1(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Our broker is right, so the check is made to expect another error.
    from coterie.conformance.checks import registry

    wrong = [
        each._replace(transcript=each.transcript._replace(blocks=[
            block._replace(expected=[line.replace("INVALID_REQUEST", "CORRUPT_MESSAGE")
                                     for line in block.expected])
            for block in each.transcript.blocks
        ]))
        for each in registry.all_checks() if each.name == "coordinators/unknown_type/v1"
    ]  # fmt: skip
    monkeypatch.setattr("coterie.cli.check.all_checks", lambda: tuple(wrong))
    result = check(address)
    assert result.exit_code == 1
    assert "deviates  coordinators/unknown_type/v1" in result.stdout
    assert "c1> FindCoordinator v1" in result.stdout
    assert "error_code: expected CORRUPT_MESSAGE, received INVALID_REQUEST" in result.stdout


def test_same_difference_is_shown_once_with_a_count() -> None:
    with Broker() as broker:
        where = f"{broker.host}:{broker.port}"
        with broker.fault(AnswerError("CORRUPT_MESSAGE"), api="FindCoordinator"):
            result = check(where, "--only", "coordinators/unknown_type")
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    shown = [line for line in lines if line.startswith("deviates  ")]
    more = [line for line in lines if line.startswith("and ")]
    counted = sum(1 + int(line.split()[1]) for line in more) + len(shown) - len(more)
    deviating = int(re.findall(r"(\d+) deviates", result.stdout)[0])
    assert counted == deviating > len(shown) == len(more) > 0
    assert all(
        line.endswith(
            "more checks of FindCoordinator whose first difference is error_code: expected"
            " INVALID_REQUEST, received CORRUPT_MESSAGE"
        )
        for line in more
    ), more
    assert f"{deviating} checks deviate or fail, {len(shown)} in different ways" in result.stdout
    # Each is named.
    listed = check("--list", "--only", "coordinators/unknown_type", "--json")
    names = {row["name"] for row in json.loads(listed.stdout)["checks"]}
    assert sum(name in result.stdout for name in names) >= deviating


def test_check_is_skipped_if_topics_cannot_be_created() -> None:
    with Broker() as broker:
        refusal = AnswerError("CLUSTER_AUTHORIZATION_FAILED")
        with broker.fault(refusal, api="CreateTopics"):
            where = f"{broker.host}:{broker.port}"
            result = check(where, "--only", "list_offsets/empty_log", "--json")
    assert result.exit_code == 0, result.output
    (reason,) = {row["reason"] for row in json.loads(result.stdout)["checks"]}
    assert reason == "the broker refuses to create topics: CLUSTER_AUTHORIZATION_FAILED"


def test_broker_that_closes_the_connection_fails() -> None:
    with Broker() as broker, broker.fault(CloseBefore(), api="InitProducerId"):
        where = f"{broker.host}:{broker.port}"
        result = check(where, "--only", "idempotence/half_an_identity", "--json")
    assert result.exit_code == 1, result.output
    rows = json.loads(result.stdout)["checks"]
    assert {(row["status"], row["reason"]) for row in rows} == {
        ("fails", "the broker closed the connection")
    }


@pytest.mark.parametrize(
    "mistake", [AssertionError("x"), KeyError("x"), ValueError("x"), TranscriptError("x")], ids=repr
)
def test_mistake_of_a_check_is_an_error_of_its_own(
    mistake: Exception, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_wrongly(*_: object) -> NoReturn:
        raise mistake

    monkeypatch.setattr(driver, "build_request", build_wrongly)
    junit, page = tmp_path / "junit.xml", tmp_path / "page.html"
    result = check(address, "--only", ONE, "--json", "--junit", str(junit), "--html", str(page))
    assert result.exit_code == 2, result.output
    data = json.loads(result.stdout)
    assert data["counts"]["error"] == 1
    assert sum(data["counts"].values()) == 1
    (row,) = data["checks"]
    assert (row["name"], row["status"]) == (ONE, "error")
    assert row["reason"].startswith(f"the check itself has failed: {mistake!r} ({__file__}, line ")
    assert row["reason"].endswith(", in build_wrongly)")
    suite = fromstring(junit.read_text(encoding="utf-8"))
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    error = suite.find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == row["reason"]
    assert row["reason"] in page.read_text(encoding="utf-8")
    shown = check(address, "--only", ONE)
    assert shown.exit_code == 2
    assert f"error  {ONE}" in shown.stdout
    assert "the check itself has failed" in shown.stdout
    assert "0 deviates, 0 fails, 0 skipped, 1 error" in shown.stdout


def test_broker_with_which_a_story_cannot_begin_fails() -> None:
    """It is the broker that refuses, not the check that is wrong."""
    with Broker() as broker:
        refusal = AnswerError("GROUP_ID_NOT_FOUND")
        with broker.fault(refusal, api="JoinGroup"):
            where = f"{broker.host}:{broker.port}"
            result = check(where, "--only", "heartbeat", "--json")
    assert result.exit_code == 1, result.output
    rows = json.loads(result.stdout)["checks"]
    failed = [row["reason"] for row in rows if row["status"] == "fails"]
    assert failed
    assert all(reason.startswith("c1 cannot join: ") for reason in failed), failed
    assert not [row for row in rows if row["status"] == "error"]


def test_dry_run_changes_nothing(address: str) -> None:
    result = check(address, "--only", "topics", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "checks would run" in result.stdout
    assert "coterie-check-*" in result.stdout


def test_list_needs_no_broker() -> None:
    result = check("--list", "--only", ONE)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, ONE)
    rows = json.loads(check("--list", "--json").stdout)["checks"]
    assert len(rows) == len({row["name"] for row in rows}) > 400
    assert all(row["sentence"] and row["source"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Missing argument 'HOST:PORT'"),
        (["no-port"], "'no-port' is not HOST:PORT"),
        (["127.0.0.1:1", "--only", "nothing-like-this"], "no check fits"),
        (["127.0.0.1:1", "--kafka-version", "new"], "is not a release of Kafka"),
        (["127.0.0.1:1", "--command-config", "no-file"], "'no-file' does not exist"),
    ],
)
def test_wrong_use_ends_with_2(arguments: list[str], text: str) -> None:
    result = check(*arguments)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize("option", ["--junit", "--html"])
def test_file_that_cannot_be_written_is_named_before_the_run(option: str, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such"
    result = check("127.0.0.1:1", option, str(missing / "file"))
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': the folder {missing} does not exist" in result.stderr
    assert f"create it: mkdir -p {missing}." in result.stderr
    result = check("127.0.0.1:1", option, str(tmp_path))
    assert result.exit_code == 2
    assert "is a directory" in result.stderr
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = check("127.0.0.1:1", option, str(tmp_path / "file" / "below"))
    assert "cannot be written: Not a directory." in result.stderr


def test_trying_a_file_changes_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before", encoding="utf-8")
    check("127.0.0.1:1", "--junit", str(old), "--html", str(new))
    assert old.read_text(encoding="utf-8") == "before"
    assert not new.exists()


def test_two_results_are_compared(tmp_path: Path) -> None:
    files = []
    for name, status in (("a", "pass"), ("b", "fails")):
        row = {"name": "x/y", "status": status, "reason": "" if status == "pass" else "closed"}
        data = {"broker": name, "checks": [row]}
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
        files.append(str(tmp_path / name))
    result = check("--compare", *files)
    assert result.exit_code == 1
    assert result.stdout == "x/y\n    a: pass\n    b: fails: closed\n"
    assert check("--compare", files[0], files[0]).exit_code == 0
    (tmp_path / "c").write_text("[]", encoding="utf-8")
    assert check("--compare", files[0], str(tmp_path / "c")).exit_code == 2


# -- other servers ---------------------------------------------------------------------------------


def closes(connection: socket.socket) -> None:
    connection.recv(100)


def answers_http(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def expects_tls(connection: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.wrap_socket(connection, server_side=True)


def says_ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def hangs(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve every connection in a thread, until the listener is closed."""

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        # Wakes `accept`.
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (answers_http, "An HTTP server listens at"),
        (expects_tls, "A server that expects TLS listens at"),
        (says_ssh, "An SSH server listens at"),
        (hangs, "has not answered ApiVersions"),
        (closes, "closes the connection at ApiVersions"),
    ],
)
def test_other_server_is_named_in_one_sentence(
    serve: Callable[[socket.socket], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "ANSWER_LIMIT_S", 0.3)
    monkeypatch.setattr(diagnosis, "PROBE_LIMIT_S", 0.3)
    with listening(serve) as where:
        result = check(where)
    assert result.exit_code == 2
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_port_without_a_listener_is_named_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = check(f"127.0.0.1:{port}")
    assert result.exit_code == 2
    assert f"No broker reached at 127.0.0.1:{port}: " in result.stderr
