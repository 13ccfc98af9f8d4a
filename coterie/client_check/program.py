"""The program under test: a command that is started, watched and ended.

It is a process in a group of its own, so that signals also reach what a script starts.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

# The end of its errors that a report shows.
_SHOWN_LINES = 12
# More output of a program is not kept.
_KEPT_LINES = 20_000
# Windows has no SIGKILL; its SIGTERM cannot be caught either.
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_PLACE = re.compile(r"\{(\w+)\}")
# What may stand in braces in a command.
PLACES = (
    "bootstrap", "topic", "group", "client_id", "instance_id", "assignor", "protocol", "regex",
    "security", "mechanism", "username", "password", "ca",
)  # fmt: skip
REQUIRED_PLACES = ("bootstrap", "topic", "group")


class CommandNotUsable(Exception):  # noqa: N818 - the command is at fault, not we
    """The command cannot be started, or does not fit; the text says why."""


class OutputLine(NamedTuple):
    """A line of standard output with its place in the conversation."""

    place: int
    text: str


class Program(Protocol):
    """A running program.

    Attributes:
        lines: what it has printed.
        exit_code: None while it runs.
    """

    lines: list[OutputLine]
    exit_code: int | None

    async def start(self, values: Mapping[str, str], printed: Callable[[str], int]) -> None:
        """Start it.

        Args:
            values: what to substitute in its command.
            printed: is called with each line of its output; returns a place.

        Raises:
            CommandNotUsable: it cannot be started.
        """

    def terminate(self) -> None:
        """Ask it to end, as SIGTERM does."""

    async def ended(self, within_s: float) -> bool:
        """Wait until it has ended; return whether it has."""

    async def kill(self) -> None:
        """End it now."""

    def last_errors(self) -> list[str]:
        """Return the last lines that it has written to standard error."""


def places_in(command: Sequence[str]) -> set[str]:
    """Return the names in braces in a command that can be substituted."""
    return {name for word in command for name in _PLACE.findall(word) if name in PLACES}


def substituted(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return a command with values in the place of names in braces."""
    return [
        _PLACE.sub(lambda found: values.get(found.group(1), found.group(0)), word)
        for word in command
    ]


class Process:
    """A program as a process; see `Program`."""

    def __init__(self, command: Sequence[str]) -> None:
        """Describe it."""
        self.lines: list[OutputLine] = []
        self.exit_code: int | None = None
        self._command = tuple(command)
        self._errors: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, values: Mapping[str, str], printed: Callable[[str], int]) -> None:
        """Start it; see `Program`."""
        line = substituted(self._command, values)
        try:
            process = await asyncio.create_subprocess_exec(
                *line,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise CommandNotUsable(f"the command '{line[0]}' was not found") from None
        except PermissionError:
            raise CommandNotUsable(f"'{line[0]}' may not be executed") from None
        except OSError as error:
            raise CommandNotUsable(f"'{line[0]}' cannot be started: {error.strerror}") from None
        self._process = process
        assert process.stdout is not None, "both outputs are pipes"
        assert process.stderr is not None, "both outputs are pipes"
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._read_output(process.stdout, printed)),
            loop.create_task(self._read_errors(process.stderr)),
            loop.create_task(self._wait(process)),
        ]

    async def _read_output(
        self, stream: asyncio.StreamReader, printed: Callable[[str], int]
    ) -> None:
        async for text in _lines(stream):
            if len(self.lines) < _KEPT_LINES:
                self.lines.append(OutputLine(printed(text), text))

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        async for text in _lines(stream):
            self._errors = [*self._errors[-_SHOWN_LINES:], text]

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        self.exit_code = await process.wait()

    def terminate(self) -> None:
        """Send SIGTERM; see `Program`."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, number)
                else:
                    # Windows has no signals, so it is the end of the program itself.
                    self._process.kill()

    async def ended(self, within_s: float) -> bool:
        """Wait for its end; see `Program`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        return self.exit_code is not None

    async def kill(self) -> None:
        """Send SIGKILL to it and all that it has started; see `Program`."""
        self._signal(_KILL)
        for task in self._tasks[:2]:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def last_errors(self) -> list[str]:
        """Return the end of standard error; see `Program`."""
        return self._errors[-_SHOWN_LINES:]


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # Longer than any line that matters; its end follows.
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()
