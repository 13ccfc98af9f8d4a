"""`coterie serve --brokers N` as a process: its line, its ports, refusals and its end."""

import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from coterie.address import Address
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.config.listeners import Listener
from coterie.server.config.place import Place
from coterie.server.listening import CannotStart
from coterie.server.run_cluster import listeners_of
from tests.unit.server.process import run, serving
from tests.unit.server.running import PATIENCE_S, SocketClient

READY = re.compile(
    r"coterie \S+ ready on (\S+) \((\d) brokers, data in (.+), flush (\S+)\) in \d+\.\d\d s\n"
)


def brokers_seen(address: Address) -> list[tuple[int, int]]:
    """Return id and port of each broker that one of them names."""
    with SocketClient(socket.create_connection(address)) as client:
        answer = client.call(MetadataRequest(topics=[]), 9)
    return [(each.node_id, each.port) for each in answer.brokers]


def test_brokers_name_each_other_and_stop_together(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    with serving("--brokers", "3", "--data-dir", directory) as process:
        assert process.stdout is not None
        line = READY.fullmatch(process.stdout.readline())
        assert line is not None
        assert line.group(2, 3, 4) == ("3", directory, "commit")
        addresses = [Address.parse(each) for each in line[1].split(",")]
        expected = [(number, each.port) for number, each in enumerate(addresses, 1)]
        assert [brokers_seen(each) for each in addresses] == [expected] * 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    for each in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(each)
    # A single broker opens the same directory.
    with serving("--data-dir", directory) as process:
        assert process.stdout is not None
        assert "ready on" in process.stdout.readline()


def test_port_of_the_third_broker_in_use_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        directory = tmp_path / "data"
        result = run(
            "--brokers", "3", "--port", str(port - 2), "--data-dir", str(directory)
        )  # fmt: skip
    assert result.returncode == 1
    assert re.search(r"127\.0\.0\.1:\d+ is in use by another program; stop it", result.stderr)
    assert not directory.exists()


def test_recording_and_metrics_that_cannot_be_leave_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    several = ("--brokers", "2", "--port", "0", "--data-dir", str(directory))
    taken = tmp_path / "taken"
    taken.write_text("not a recording")
    result = run(*several, "--record", str(taken))
    assert result.returncode == 1
    assert f"--record {taken}: {taken} exists and is no recording" in result.stderr
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        for more in ((), ("--control", "0")):
            result = run(*several, *more, "--metrics-port", str(port))
            assert result.returncode == 1
            assert f"127.0.0.1:{port} is in use by another program" in result.stderr
            assert "--metrics-port 0" in result.stderr


def test_metrics_of_several_brokers_are_served_without_a_control_port() -> None:
    with serving("--brokers", "2", "--data-dir", ":memory:", "--metrics-port", "0") as process:
        assert process.stdout is not None
        assert READY.fullmatch(process.stdout.readline())
        line = re.fullmatch(r"metrics on (http://\S+/metrics)\n", process.stdout.readline())
        assert line is not None
        text = urllib.request.urlopen(line[1]).read().decode()
        assert 'coterie_broker_running{broker="2"} 1.0' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_ports_follow_each_other() -> None:
    first = Listener(Address("127.0.0.1", 9092), advertised=Address("host", 19092))
    second = Listener(Address("127.0.0.1", 0), name="OTHER")
    place = Place((first, second), ":memory:", ())
    listeners = listeners_of(place, 2)
    assert [each.address.port for each in listeners] == [9094, 0]
    assert [each.advertised for each in listeners] == [Address("host", 19094), None]
    last = Place((first._replace(address=Address("127.0.0.1", 65535)),), ":memory:", ())
    with pytest.raises(CannotStart, match="port 65536 does not exist"):
        listeners_of(last, 1)
