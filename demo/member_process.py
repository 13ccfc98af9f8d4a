"""A group member as a child process that reports what happens as JSON lines.

The demo and the live tests start their members with this class. A member ends when its standard
input ends, so it does not outlive the process that started it.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_ERROR_LINES = 30
_END_LIMIT_S = 10.0


class MemberProcess:
    """A running or ended member program. A subclass handles its events.

    Attributes:
        library: the client library that it uses.
        process: the child process.
    """

    def __init__(
        self,
        module: str,
        library: str,
        options: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program.

        Args:
            module: the program, run with `python -m`.
            library: the value of its option `--library`.
            options: its other options; underscores become hyphens, None leaves an option out.
            environment: variables to set besides those of this process.
        """
        self.library = library
        self._error_lines: list[str] = []
        command = [sys.executable, "-m", module, "--library", library]
        for name, value in options.items():
            if value is not None:
                command += [f"--{name.replace('_', '-')}", str(value)]
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C must not reach the members: their parent decides how they end.
            process_group=0,
        )
        self._events_reader = threading.Thread(target=self._read_events, daemon=True)
        self._errors_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._events_reader.start()
        self._errors_reader.start()

    def handle(self, event: dict[str, Any]) -> None:
        """Handle one event, on the reader's thread."""
        raise NotImplementedError

    def handle_end(self) -> None:
        """Handle the end of the member's output, on the reader's thread."""

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # A killed process may leave an incomplete last line.
            if line.endswith("\n"):
                self.handle(json.loads(line))
        self.handle_end()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._error_lines = [*self._error_lines[1 - _ERROR_LINES :], line.rstrip()]

    @property
    def all_read(self) -> bool:
        """Whether the process has ended and all of its events were handled."""
        return self.process.poll() is not None and not self._events_reader.is_alive()

    def last_errors(self) -> list[str]:
        """Return the last lines that it wrote to standard error."""
        return list(self._error_lines)

    def send(self, order: Mapping[str, object]) -> None:
        """Write an order, one JSON line, to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def wait(self, limit_s: float) -> int:
        """Wait until it has ended and its output is read; return the exit code.

        Raises:
            subprocess.TimeoutExpired: it is still running.
        """
        code = self.process.wait(limit_s)
        for reader in (self._events_reader, self._errors_reader):
            reader.join(_END_LIMIT_S)
        return code

    def close(self) -> None:
        """Kill it if it is still running, and close its pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait(_END_LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    # The member did not read an order; the pipe is closed all the same.
                    continue
