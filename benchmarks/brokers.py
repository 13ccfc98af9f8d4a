"""The brokers that are compared: those that the benchmark starts, and peers that already run.

A broker is started for every measurement, with an empty data directory, and stopped after it;
`start` returns when the first request has been answered, and also measures that time. A peer is
left as it is.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import testing_broker
from benchmarks.address import Address, free_port
from benchmarks.processes import command_name, listening_pid
from benchmarks.requests import VERSIONS, AgreedApi
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
PROBE_EVERY_S = 0.001
_ROOT = Path(__file__).parent.parent
# How much of the output of a broker that did not start is printed.
_OUTPUT_CHARACTERS = 300


class StartFailed(Exception):  # noqa: N818 - the name says what happened
    """A broker did not start; the message says why."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running broker; `start_s` is None for a peer."""

    address: Address
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker that runs already."""

    name: str
    address: Address
    ours = False
    inflexible = False
    bare = False

    @classmethod
    def parse(cls, text: str) -> Peer:
        """Parse "name=host:port" or "name=host:port:pid"; a missing pid is looked up.

        Raises:
            NotLoopback, ValueError: see `Address.parse`.
        """
        name, equals, rest = text.partition("=")
        if not name or not equals:
            raise ValueError(f"{text!r} is not name=host:port or name=host:port:pid")
        address = Address.parse(rest)
        if address.pid is None:
            address = Address(address.host, address.port, listening_pid(address.port))
        return cls(name, address)

    def start(self) -> Running:
        return Running(self.address)

    def stop(self) -> None:
        """Leave the peer running."""

    @property
    def needs_warming(self) -> bool:
        """Whether it is a JVM, which compiles its code while it runs."""
        return self.address.pid is not None and command_name(self.address.pid) == "java"


def _environment() -> dict[str, str]:
    """Return the environment of a measured broker.

    It may write byte code, which an installed package has: without it a start takes twice as long.
    """
    name = "PYTHONDONTWRITEBYTECODE"
    return {key: value for key, value in os.environ.items() if key != name}


@dataclass(slots=True)
class Child:
    """A broker that the benchmark starts as a process of its own.

    Args:
        command: returns the command line for a port and a data directory.
        announces: whether it chooses its own port and prints "host:port".
        inflexible: whether it announces flexible versions, but reads them wrongly.
        bare: whether it is the floor, which serves heartbeats only.
        tree: the directory from which its code is imported.
    """

    name: str
    command: Callable[[int, str], list[str]]
    announces: bool = False
    inflexible: bool = False
    bare: bool = False
    tree: Path = _ROOT
    ours = True
    needs_warming = False
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _scratch: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)

    def start(self) -> Running:
        """Start the process and wait until it has answered a request.

        Raises:
            StartFailed: it ended, or did not answer in time.
        """
        assert self._process is None, "one process at a time"
        self._scratch = tempfile.TemporaryDirectory(prefix="coterie-bench-")
        port = free_port()
        command = self.command(port, os.path.join(self._scratch.name, "data"))
        began = time.perf_counter()
        deadline = began + START_TIMEOUT_S
        try:
            with open(os.path.join(self._scratch.name, "log"), "wb") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd=self.tree,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_environment() | {"PYTHONPATH": str(self.tree)},
                )
        except OSError as error:
            self.stop()
            raise StartFailed(f"{command[0]} cannot be started: {error}") from error
        try:
            if self.announces:
                port = self._announced_port(deadline)
            self._first_response(port, deadline)
        except StartFailed:
            self.stop()
            raise
        seconds = time.perf_counter() - began
        return Running(Address("127.0.0.1", port, self._process.pid), seconds)

    def _announced_port(self, deadline: float) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], deadline - time.perf_counter())
        line = self._process.stdout.readline().decode() if ready else ""
        if not line.strip():
            raise StartFailed(f"it did not print its address; {self._last_output()}")
        return Address.parse(line.strip()).port

    def _first_response(self, port: int, deadline: float) -> None:
        assert self._process is not None
        if self.bare:
            heartbeat = HeartbeatRequest(group_id="probe", generation_id=1, member_id="probe")
            probe = AgreedApi(ApiKey.HEARTBEAT, VERSIONS[ApiKey.HEARTBEAT][0]).frame(heartbeat)
        else:
            probe = AgreedApi(ApiKey.API_VERSIONS, 0).frame(ApiVersionsRequest())
        while time.perf_counter() < deadline:
            if self._process.poll() is not None:
                raise StartFailed(
                    f"it ended with {self._process.returncode}; {self._last_output()}"
                )
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=START_TIMEOUT_S) as sock:
                    sock.sendall(probe)
                    if sock.recv(4):
                        return
            except OSError:
                pass  # it does not listen yet
            time.sleep(PROBE_EVERY_S)
        raise StartFailed(f"no response after {START_TIMEOUT_S:.0f} s; {self._last_output()}")

    def _last_output(self) -> str:
        assert self._scratch is not None
        log = Path(self._scratch.name, "log").read_text(errors="replace").strip()
        return f"its output: {log[-_OUTPUT_CHARACTERS:]}" if log else "it printed nothing"

    def stop(self) -> None:
        """End the process and remove its data."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


Broker = Peer | Child


def coterie(flush: str = "never") -> Child:
    """Return our server, started as by `make serve` with the settings that all brokers share."""
    program = str(Path(sys.executable).with_name("coterie"))
    return Child("coterie", lambda port, data: [program, *_serve(port, data, flush)])


def of_tree(name: str, tree: Path) -> Child:
    """Return our server from another directory with the package: another version, or form.

    Raises:
        ValueError: it has no package.
    """
    if not (tree / "coterie" / "__main__.py").is_file():
        raise ValueError(f"{tree} has no package coterie")
    program = [sys.executable, "-m", "coterie"]
    return Child(name, lambda port, data: [*program, *_serve(port, data, "never")], tree=tree)


def _serve(port: int, data: str, flush: str) -> list[str]:
    return [
        *("serve", "--host", "127.0.0.1", "--port", str(port), "--data-dir", data),
        *("--config", "group.initial.rebalance.delay.ms=0", "--flush", flush),
    ]


def mock() -> Child:
    """Return librdkafka's mock cluster."""
    command = [sys.executable, "-m", "benchmarks.mock_cluster"]
    return Child("mock", lambda port, data: command, announces=True, inflexible=True)


def floor() -> Child:
    """Return the floor, which serves heartbeats only."""
    command = [sys.executable, "-m", "benchmarks.floor"]
    return Child("floor", lambda port, data: [*command, str(port)], bare=True)


def of_tests() -> list[Broker]:
    """Return brokers of `coterie.testing`: without its table of routes, with it, with a fault."""
    program = [sys.executable, "-m", "benchmarks.testing_broker"]

    def of_mode(mode: str) -> Child:
        return Child(f"test {mode}", lambda port, data: [*program, mode], announces=True)

    return [of_mode(mode) for mode in testing_broker.MODES]
