"""Child processes whose output is in files.

Each is in a process group of its own, so that Ctrl-C does not reach it: its parent decides how it
ends. Its standard input is a pipe that ends with the parent.
"""

import contextlib
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Self

from coterie.protocol.frames import encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest

_END_LIMIT_S = 10.0
_SHOWN_LINES = 30
_CONTINUE = Signals.__members__.get("SIGCONT")
# A wait looks again after a part of the time that has passed. So the start of a broker is measured
# to a hundredth, and looking at a program that takes a minute costs nothing.
_LOOKS = 100
_SHORTEST_POLL_S = 0.001
_ANSWER_LIMIT_S = 2.0
# Every version of every broker responds to it, which shows that the broker works.
API_VERSIONS = encode_request(ApiVersionsRequest(), 0, 1, "coterie")


class ProcessFailed(Exception):  # noqa: N818 - the name says what happened
    """A program can't be started, has ended by itself, or does not do something in time."""


class Child:
    """A program that was started.

    Attributes:
        name: for messages.
        log: the file with its standard output and standard error.
        process: the process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Start the program.

        Args:
            name: for messages.
            command: the program and its arguments.
            log: its output is added to this file.
            environment: its variables; None for those of this process.
            directory: where it runs; None for that of this process.

        Raises:
            ProcessFailed: the program can't be started.
        """
        self.name = name
        self.log = log
        self._read_characters = 0
        try:
            with log.open("ab") as output:
                self.process = subprocess.Popen(  # noqa: S603 - the caller's own program
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=directory,
                    process_group=0,
                )
        except OSError as error:
            raise ProcessFailed(f"{command[0]} can't be started: {error.strerror}.") from None

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a stopped one runs."""
        return self.process.poll() is None

    def check(self) -> None:
        """Check that the process runs.

        Raises:
            ProcessFailed: it has ended.
        """
        if not self.running:
            raise self.failure(f"ended with exit code {self.process.returncode}")

    def failure(self, what: str) -> ProcessFailed:
        """Return the error that says what the process did, with the end of its log."""
        return ProcessFailed(f"{self.name} {what}. Its log ends:\n{self.last_lines()}")

    def signal(self, number: Signals) -> None:
        """Send a signal; a process that has ended does not get it."""
        if self.running:
            self.process.send_signal(number)

    def resume(self) -> None:
        """Let a stopped process run; no process is stopped where there is no such signal."""
        if _CONTINUE is not None:
            self.signal(_CONTINUE)

    def kill(self, limit_s: float = _END_LIMIT_S) -> int:
        """Kill the process, wait until the kernel has removed it, and return its exit code."""
        self.process.kill()
        return self.wait(limit_s)

    def end(self, number: Signals = SIGTERM, limit_s: float = _END_LIMIT_S) -> int:
        """End the process with a signal, and return its exit code.

        Raises:
            ProcessFailed: it was still running at the limit, and was killed.
        """
        self.signal(number)
        return self.wait(limit_s)

    def wait(self, limit_s: float = _END_LIMIT_S) -> int:
        """Wait until the process has ended, and return its exit code.

        Raises:
            ProcessFailed: it was still running at the limit, and was killed.
        """
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise self.failure(f"was still running after {limit_s:g} s") from None
        finally:
            if self.process.stdin is not None:
                with contextlib.suppress(OSError):
                    self.process.stdin.close()

    def write(self, line: str) -> None:
        """Write a line to standard input of the process."""
        stream = self.process.stdin
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.write(f"{line}\n".encode())
            stream.flush()

    def rest(self) -> str:
        """Return what it has written since the line that was waited for."""
        return self.log.read_text(errors="replace")[self._read_characters :]

    def last_lines(self) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])

    def wait_for_port(self, address: tuple[str, int], limit_s: float = 60.0) -> None:
        """Wait until something listens at an address.

        Raises:
            ProcessFailed: the process has ended, or the time is over.
        """
        for _ in self._looks(limit_s, f"did not listen at {address}"):
            with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
                return

    def wait_for_answer(
        self, address: tuple[str, int], request: bytes = API_VERSIONS, limit_s: float = 60.0
    ) -> None:
        """Wait until a request at an address is answered.

        Args:
            address: where the process will listen.
            request: the frame, by default ApiVersions.
            limit_s: how long to wait.

        Raises:
            ProcessFailed: the process has ended, or the time is over.
        """
        for _ in self._looks(limit_s, "did not respond"):
            with contextlib.suppress(OSError):
                first_answer(address, request)
                return

    def wait_for_line(self, pattern: str, limit_s: float = 60.0) -> re.Match[str]:
        """Wait for the next line that has a regular expression, and return the match.

        Lines up to the one that was waited for before do not count.

        Raises:
            ProcessFailed: the process has ended, or the time is over.
        """
        for _ in self._looks(limit_s, f"did not print '{pattern}'"):
            found = re.search(rf"{pattern}.*\n", self.rest())
            if found is not None:
                self._read_characters += found.end()
                return found
        raise AssertionError("looks end with an error")

    def _looks(self, limit_s: float, failure: str) -> Iterator[None]:
        """Yield each time that it is worth to look whether the process has done something."""
        began_s = time.monotonic()
        while True:
            ended = not self.running
            yield
            if ended:
                self.check()
            passed_s = time.monotonic() - began_s
            if passed_s > limit_s:
                raise self.failure(f"{failure} within {limit_s:g} s")
            time.sleep(max(_SHORTEST_POLL_S, passed_s / _LOOKS))


class Children:
    """The child processes of a run, and the directory for their logs.

    The context manager ends all that are left. If the run itself is killed, standard input of every
    child ends, and where `setpriv` exists the kernel kills the child.

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

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Child:
        """Start a process, with a log named after it; see `Child`."""
        log = self.directory / f"{name}.log"
        child = Child(name, [*self._prefix, *command], log, environment, directory)
        self.all.append(child)
        return child

    def stop(self, children: Iterable[Child]) -> None:
        """Stop processes in an orderly way, all at the same time; kill those that take too long."""
        left = [child for child in children if child.running]
        for child in left:
            child.resume()
            child.signal(SIGTERM)
        give_up_s = time.monotonic() + _END_LIMIT_S
        for child in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, give_up_s - time.monotonic()))
            child.kill()

    def end(self) -> None:
        """Kill all processes that run. What they measured is in files."""
        for child in reversed(self.all):
            child.kill()


def first_answer(
    address: tuple[str, int], request: bytes = API_VERSIONS, limit_s: float = _ANSWER_LIMIT_S
) -> bytes:
    """Send a request on a new connection, and return the answer without its size.

    Raises:
        OSError: nothing answers.
    """
    with (
        socket.create_connection(address, timeout=limit_s) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(request)
        size = stream.read(4)
        if len(size) < 4:
            raise ConnectionError(f"{address} closed the connection without a response")
        return stream.read(int(struct.unpack(">i", size)[0]))
