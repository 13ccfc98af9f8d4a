"""Child processes of a live run. None of them outlives it.

The context manager ends all that are left. If the run itself is killed, standard input of every
child ends, and where `setpriv` exists the kernel kills the child.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from coterie.address import Address
from coterie.lab.errors import WrongInput

_END_LIMIT_S = 10.0
_POLL_S = 0.05
_SHOWN_LINES = 8


class Child:
    """A child process.

    Attributes:
        name: for messages.
        log: the file with its standard output and standard error.
        process: the process.
    """

    def __init__(self, name: str, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.log = log
        self.process = process

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a stopped one runs."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a process that has ended does not get it."""
        if self.running:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and wait until the kernel has removed it."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def write(self, line: str) -> None:
        """Write a line to standard input of the process."""
        stream = self.process.stdin
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.write(f"{line}\n".encode())
            stream.flush()

    def last_lines(self) -> str:
        """Return the end of the log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        return ""


class Children:
    """The child processes of a run, and the directory for their logs.

    Attributes:
        directory: where logs are.
        all: every child that was started, in order.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.all: list[Child] = []
        self._prefix: list[str] = []
        setpriv = shutil.which("setpriv")
        if setpriv is not None:
            self._prefix = [setpriv, "--pdeathsig", "KILL", "--"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Child:
        """Start a process in a process group of its own, so that Ctrl-C does not reach it.

        Args:
            name: for messages, and for its log.
            command: the program and its arguments.
            environment: variables besides those of this process.
            directory: where it runs; None for that of this process.

        Raises:
            WrongInput: the program can't be started.
        """
        log = self.directory / f"{name}.log"
        try:
            with log.open("ab") as output:
                process = self._spawn(command, output, environment, directory)
        except OSError as error:
            raise WrongInput(f"{command[0]} can't be started: {error.strerror}.") from None
        child = Child(name, log, process)
        self.all.append(child)
        return child

    def _spawn(
        self,
        command: Sequence[str],
        output: IO[bytes],
        environment: Mapping[str, str] | None,
        directory: Path | None,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - the programs of a client
            [*self._prefix, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            process_group=0,
        )

    def wait_for_port(self, child: Child, address: Address, limit_s: float = 60.0) -> None:
        """Wait until something listens at an address.

        Raises:
            WrongInput: the process has ended, or the time is over; the end of its log is shown.
        """
        give_up_s = time.monotonic() + limit_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
                return
            ended = not child.running
            if ended or time.monotonic() > give_up_s:
                what = "has ended" if ended else f"does not listen at {address}"
                raise WrongInput(f"{child.name} {what}. Its log ends:\n{child.last_lines()}")
            time.sleep(_POLL_S)

    def stop(self, children: Iterable[Child]) -> None:
        """Stop processes in an orderly way; kill those that take too long."""
        left = [child for child in children if child.running]
        for child in left:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        give_up_s = time.monotonic() + _END_LIMIT_S
        for child in left:
            try:
                child.process.wait(max(0.1, give_up_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()

    def end(self) -> None:
        """Kill all processes that run. What they measured is in files."""
        for child in reversed(self.all):
            child.kill()
            if child.process.stdin is not None:
                with contextlib.suppress(OSError):
                    child.process.stdin.close()


def free_port() -> int:
    """Return a loopback port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
