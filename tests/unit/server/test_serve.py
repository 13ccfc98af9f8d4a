"""`coterie serve` as a process: the ready line, refusals, signals, exit codes.

Rules: [connections/listening], [connections/stop], [settings/listeners].
"""

import importlib.metadata
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from tests.unit.server.process import ready, run, serving
from tests.unit.server.running import PATIENCE_S, SocketClient

ROOT = Path(__file__).parents[3]


def test_ready_line_and_stop_by_sigterm(tmp_path: Path) -> None:
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


def test_stop_by_sigint() -> None:
    with serving("--data-dir", ":memory:") as process:
        _, line = ready(process)
        assert line[3] == "memory"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_log_as_json(tmp_path: Path) -> None:
    arguments = ("--log-format", "json", "--log-level", "info")
    with serving("--data-dir", str(tmp_path / "data"), *arguments) as process:
        ready(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    # With the event loop's debug mode on, asyncio adds lines of its own.
    lines = [line for line in map(json.loads, errors.splitlines()) if "library" not in line]
    assert lines[0]["event"] == "topic created"
    assert lines[0]["topic"] == "__consumer_offsets"
    assert lines[-1]["event"] == "broker stopped"


def test_settings_from_options_environment_and_file(tmp_path: Path) -> None:
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
            (("--config", "listeners=OTHER://localhost:1"), "Add OTHER:PLAINTEXT to listener"),
            (("--config", "log.dirs=/a"), "contradict each other"),
            (("--flush", "sometimes"), "never, commit, interval:MS"),
            (("--advertise", "nonsense"), "HOST:PORT"),
            (("--properties", "/nowhere"), "does not exist"),
            (("--port", "70000"), "70000"),
            (("--log-level", "loud"), "loud"),
        ],
    )
    def test_invalid_option(self, arguments: tuple[str, ...], text: str) -> None:
        result = run("--data-dir", ":memory:", *arguments)
        assert result.returncode == 2
        assert text in " ".join(result.stderr.split())
        assert result.stdout == ""

    def test_invalid_environment_variable(self) -> None:
        result = run("--data-dir", ":memory:", COTERIE_GROUP_MAX_SIZE="many")
        assert result.returncode == 2
        assert "environment variable COTERIE_GROUP_MAX_SIZE" in result.stderr

    def test_port_in_use(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            # In the debug mode asyncio has a line for each slow callback, which a busy machine has.
            result = run(
                *("--data-dir", ":memory:", "--port", str(port), "--log-level", "debug"),
                PYTHONASYNCIODEBUG="",
            )
        assert result.returncode == 1
        assert result.stderr == (
            f"coterie serve: 127.0.0.1:{port} is in use by another program; stop it, or choose"
            " another port (--port 0 picks a free one)\n"
        )

    def test_directory_in_use(self, tmp_path: Path) -> None:
        with serving("--data-dir", str(tmp_path / "data")) as process:
            ready(process)
            result = run("--data-dir", str(tmp_path / "data"), "--port", "0")
        assert result.returncode == 1
        assert "is in use by another broker; stop it, or use another directory" in result.stderr

    def test_directory_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("something")
        result = run("--data-dir", str(tmp_path / "data"), "--port", "0")
        assert result.returncode == 1
        assert "can't be written" in result.stderr
        assert "--data-dir" in result.stderr

    def test_directory_of_another_node(self, tmp_path: Path) -> None:
        with serving("--data-dir", str(tmp_path / "data")) as process:
            ready(process)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        result = run("--data-dir", str(tmp_path / "data"), "--port", "0", "--config", "node.id=7")
        assert result.returncode == 1
        assert "of node 1, this is node 7" in result.stderr

    def test_address_of_another_machine(self) -> None:
        result = run(
            "--data-dir", ":memory:", "--port", "0", "--host", "192.0.2.1", "--allow-remote"
        )
        assert result.returncode == 1
        assert "can't listen on 192.0.2.1:0" in result.stderr


def test_version_equals_that_of_the_distribution() -> None:
    assert importlib.metadata.version("coterie") == coterie.__version__


def test_start_does_not_import_slow_modules() -> None:
    """Each of these takes more than a tenth of the time that a start may take."""
    code = (
        "import sys, coterie.cli.serve, coterie.server.run;"
        "print(*sorted(set(sys.modules) & {'rich', 'cramjam', 'importlib.metadata',"
        " 'difflib', 'unittest', 'uvicorn', 'h11', 'prometheus_client'}))"
    )
    result = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_requests_import_nothing() -> None:
    """An import opens files, which fails while file handles are short."""
    code = """
import sys

from coterie.protocol.records import Compression
from coterie.server.network.routes import import_handlers
from tests.unit.server.groups import commit, committed, stable_member
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.produced import batch, fetch_request, produce

client = Client(make_broker())
client.broker.controller.create("t", 1, {})
for _ in import_handlers():
    pass
# These compress here what a client compresses.
batches = [batch(b"a", compression=each) for each in Compression]
before = set(sys.modules)
stable_member(client)
client.call(commit(1, group_id="größe"), 8)
committed(client)
for each in batches:
    produce(client, each)
client.call(fetch_request((0, 0)), 12)
print(*sorted(set(sys.modules) - before))
"""
    result = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == ""
