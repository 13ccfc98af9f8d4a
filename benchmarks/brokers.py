"""The brokers that are compared: those that the benchmark starts, and peers that already run.

A broker is started for every measurement, with an empty data directory, and stopped after it;
`start` returns when the first request has been answered, and also measures that time. A peer is
left as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import testing_broker
from benchmarks.address import Address
from benchmarks.processes import command_name, listening_pid
from benchmarks.requests import VERSIONS, AgreedApi
from coterie.processes import API_VERSIONS, ProcessFailed, free_port, serve_command
from coterie.processes import Child as Process
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.heartbeat import HeartbeatRequest

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_ROOT = Path(__file__).parent.parent
_HEARTBEAT = AgreedApi(ApiKey.HEARTBEAT, VERSIONS[ApiKey.HEARTBEAT][0]).frame(
    HeartbeatRequest(group_id="probe", generation_id=1, member_id="probe")
)


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
    _process: Process | None = field(default=None, init=False)
    _scratch: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)

    def start(self) -> Running:
        """Start the process and wait until it has answered a request.

        Raises:
            ProcessFailed: it ended, or did not answer in time.
        """
        assert self._process is None, "one process at a time"
        self._scratch = tempfile.TemporaryDirectory(prefix="coterie-bench-")
        scratch = Path(self._scratch.name)
        port = free_port()
        command = self.command(port, str(scratch / "data"))
        environment = _environment() | {"PYTHONPATH": str(self.tree)}
        began = time.perf_counter()
        try:
            self._process = Process("It", command, scratch / "log", environment, self.tree)
            if self.announces:
                port = int(self._process.wait_for_line(r"127\.0\.0\.1:(\d+)")[1])
            address = Address("127.0.0.1", port, self._process.process.pid)
            self._process.wait_for_answer(
                (address.host, port),
                _HEARTBEAT if self.bare else API_VERSIONS,
                START_TIMEOUT_S,
            )
        except ProcessFailed:
            self.stop()
            raise
        return Running(address, time.perf_counter() - began)

    def stop(self) -> None:
        """End the process and remove its data."""
        if self._process is not None:
            with suppress(ProcessFailed):
                self._process.end(limit_s=STOP_TIMEOUT_S)
            self._process = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


Broker = Peer | Child


def coterie(flush: str = "never") -> Child:
    """Return our server, started as by `make serve` with the settings that all brokers share."""
    return _serving("coterie", [str(Path(sys.executable).with_name("coterie"))], flush, _ROOT)


def of_tree(name: str, tree: Path) -> Child:
    """Return our server from another directory with the package: another version, or form.

    Raises:
        ValueError: it has no package.
    """
    if not (tree / "coterie" / "__main__.py").is_file():
        raise ValueError(f"{tree} has no package coterie")
    return _serving(name, [sys.executable, "-m", "coterie"], "never", tree)


def _serving(name: str, program: list[str], flush: str, tree: Path) -> Child:
    config = {"group.initial.rebalance.delay.ms": "0"}

    def command(port: int, data: str) -> list[str]:
        return [*serve_command(program, port, data, config), "--flush", flush]

    return Child(name, command, tree=tree)


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
