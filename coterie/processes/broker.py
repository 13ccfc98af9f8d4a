"""A broker as a child process, started with the command line that users type."""

import contextlib
import random
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.processes.child import Child

# Settings for short demonstrations and tests: members show up at once instead of being gathered for
# three seconds, and the session of a killed member can be short.
FAST_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}

# Below 32768, where the ports for outgoing connections begin on Linux; macOS uses those from 49152.
_PORTS = (20_000, 32_768)
_HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nothing listens at the moment.

    It is not one of the ports that the kernel gives to outgoing connections. Among those, a client
    connection can take the port before the broker starts or while it restarts; a client can even
    be connected to itself, if the kernel chooses the port to which it connects as its own.
    """
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((_HOST, port))
            return port


def serve_command(
    program: Sequence[str], port: int, data_dir: str, config: Mapping[str, str]
) -> list[str]:
    """Return the command line of a broker.

    Args:
        program: `coterie`, or a program that takes the same arguments.
        port: where it listens on this machine; 0 for a free one.
        data_dir: its data directory, or :memory:.
        config: its settings.
    """
    settings = [f"--config={name}={value}" for name, value in config.items()]
    place = ("--host", _HOST, "--port", str(port), "--data-dir", data_dir)
    return [*program, "serve", *place, *settings]


class BrokerProcess:
    """A broker that can be stopped, killed and started again in place.

    Attributes:
        port, bootstrap: its port, and its address, HOST:PORT.
        data_dir: its data directory.
        config: its settings.
        output: the file with its standard output and standard error.
    """

    def __init__(
        self, data_dir: Path, config: Mapping[str, str], program: str | None = None
    ) -> None:
        """Choose a free port; nothing is started yet.

        Args:
            data_dir: the data directory; the output is written beside it.
            config: settings, as for --config.
            program: the command to run instead of the `coterie` of this environment.
        """
        self.port = free_port()
        self.bootstrap = f"{_HOST}:{self.port}"
        self.data_dir = data_dir
        self.config = dict(config)
        self.output = data_dir.with_name(f"{data_dir.name}.output")
        self._program = program or shlex.quote(str(Path(sys.executable).with_name("coterie")))
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._child is not None, "the broker is not running"
        return self._child.process.pid

    def command(self) -> list[str]:
        """Return the command line."""
        program = shlex.split(self._program)
        return serve_command(program, self.port, str(self.data_dir), self.config)

    def begin(self) -> Child:
        """Start the broker without waiting for it.

        Raises:
            ProcessFailed: the program can't be run.
        """
        assert self._child is None, "the broker is already running"
        self._child = Child("The broker", self.command(), self.output)
        return self._child

    def start(self, limit_s: float = 30.0) -> float:
        """Start the broker and wait until it responds; return the seconds that it took.

        Raises:
            ProcessFailed: the program can't be run, ends, or does not respond.
        """
        began_s = time.monotonic()
        self.begin().wait_for_answer((_HOST, self.port), limit_s=limit_s)
        return time.monotonic() - began_s

    def check(self) -> None:
        """Check that the broker is running.

        Raises:
            ProcessFailed: it has ended by itself.
        """
        if self._child is not None:
            self._child.check()

    def stop(self, limit_s: float = 30.0) -> int:
        """End the broker with SIGTERM and return its exit code.

        Raises:
            ProcessFailed: it was still running at the limit, and was killed.
        """
        child, self._child = self._child, None
        return 0 if child is None else child.end(limit_s=limit_s)

    def kill(self) -> int:
        """End the broker with SIGKILL, as the kernel does when memory runs out."""
        child, self._child = self._child, None
        return 0 if child is None else child.kill(30.0)

    def tail(self) -> str:
        """Return the end of the broker's output, for error messages."""
        return "" if self._child is None else self._child.last_lines()
