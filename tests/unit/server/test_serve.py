"""`coterie serve` as a process: the ready line, what can be wrong, signals, exit codes."""

import importlib.metadata
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import coterie
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from tests.unit.server.running import PATIENCE_S, SocketClient

READY = re.compile(
    r"coterie \S+ ready on (\S+):(\d+) \(data in (.+), flush (\S+)\) in (\d+\.\d\d) s\n"
)
COMMAND = (sys.executable, "-m", "coterie", "serve")


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that does not start a broker."""
    return subprocess.run(
        (*COMMAND, *arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        (*COMMAND, "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ready(process: "subprocess.Popen[str]") -> tuple[int, "re.Match[str]"]:
    """The port, and the whole ready line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = READY.fullmatch(line)
    assert match, line
    return int(match[2]), match


def test_it_says_where_it_listens_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    with serving("--data-dir", directory, "--flush", "never") as process:
        port, line = ready(process)
        assert line[1] == "127.0.0.1"
        assert (line[3], line[4]) == (directory, "never")
        with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            assert client.call(request, 3).error_code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert (tmp_path / "data" / "meta.properties").exists()


def test_control_c_ends_it_too() -> None:
    with serving("--data-dir", ":memory:") as process:
        _, line = ready(process)
        assert line[3] == "memory"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_the_log_is_json_when_asked_for(tmp_path: Path) -> None:
    arguments = ("--log-format", "json", "--log-level", "info")
    with serving("--data-dir", str(tmp_path / "data"), *arguments) as process:
        ready(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert lines[0]["event"] == "topic created"
    assert lines[0]["topic"] == "__consumer_offsets"
    assert lines[-1]["event"] == "broker stopped"


def test_settings_from_everywhere(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("offsets.topic.num.partitions=3\nnum.partitions=9\n")
    with serving(
        "--data-dir",
        str(tmp_path / "data"),
        "--properties",
        str(properties),
        "--config",
        "num.partitions=2",
        COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
    ) as process:
        ready(process)
    assert len(list((tmp_path / "data").glob("__consumer_offsets-*"))) == 3


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("--config", "group.max.sise=5"), "Did you mean group.max.size"),
            (("--config", "group.max.size=0"), "Value must be at least 1"),
            (("--host", "0.0.0.0"), "--allow-remote"),
            (("--host", "0.0.0.0", "--allow-remote"), "--advertise HOST:PORT"),
            (("--flush", "sometimes"), "never, commit, interval:MS"),
            (("--advertise", "nonsense"), "HOST:PORT"),
            (("--properties", "/nowhere"), "does not exist"),
            (("--port", "70000"), "70000"),
            (("--log-level", "loud"), "loud"),
        ],
    )
    def test_usage(self, arguments: tuple[str, ...], text: str) -> None:
        result = run("--data-dir", ":memory:", *arguments)
        assert result.returncode == 2
        assert text in " ".join(result.stderr.split())
        assert result.stdout == ""

    def test_a_variable(self) -> None:
        result = run("--data-dir", ":memory:", COTERIE_GROUP_MAX_SIZE="many")
        assert result.returncode == 2
        assert "environment variable COTERIE_GROUP_MAX_SIZE" in result.stderr

    def test_a_port_in_use(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = run("--data-dir", ":memory:", "--port", str(port), "--log-level", "error")
        assert result.returncode == 1
        assert result.stderr == (
            f"coterie serve: 127.0.0.1:{port} is in use by another program; stop it, or choose"
            " another port (--port 0 picks a free one)\n"
        )

    def test_a_directory_in_use(self, tmp_path: Path) -> None:
        with serving("--data-dir", str(tmp_path / "data")) as process:
            ready(process)
            result = run("--data-dir", str(tmp_path / "data"), "--port", "0")
        assert result.returncode == 1
        assert "is in use by another broker; stop it, or use another directory" in result.stderr

    def test_a_directory_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("something")
        result = run("--data-dir", str(tmp_path / "data"), "--port", "0")
        assert result.returncode == 1
        assert "can't be written" in result.stderr
        assert "--data-dir" in result.stderr

    def test_a_directory_of_another_broker(self, tmp_path: Path) -> None:
        with serving("--data-dir", str(tmp_path / "data")) as process:
            ready(process)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        result = run("--data-dir", str(tmp_path / "data"), "--port", "0", "--config", "node.id=7")
        assert result.returncode == 1
        assert "of node 1, this is node 7" in result.stderr

    def test_an_address_of_another_machine(self) -> None:
        result = run(
            "--data-dir", ":memory:", "--port", "0", "--host", "192.0.2.1", "--allow-remote"
        )
        assert result.returncode == 1
        assert "can't listen on 192.0.2.1:0" in result.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("coterie") == coterie.__version__


def test_the_start_imports_nothing_it_does_not_need() -> None:
    """Each of these costs more than a tenth of the time a start may take."""
    code = (
        "import sys, coterie.cli.serve, coterie.server.run;"
        "print(*sorted(set(sys.modules) & {'rich', 'cramjam', 'crc32c', 'importlib.metadata',"
        " 'difflib', 'unittest', 'uvicorn', 'h11', 'prometheus_client'}))"
    )
    result = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
