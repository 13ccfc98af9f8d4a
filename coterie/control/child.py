"""The process of a broker, as its parent sees it."""

import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from coterie.testing.errors import BrokerLeak, BrokerNotStarted

# A busy machine needs some seconds for what takes 300 ms.
_START_LIMIT_S = 60.0
_END_LIMIT_S = 15.0
_READ_BYTES = 65_536


class Child:
    """A running `coterie serve --control`; it ends when this process does.

    Attributes:
        bootstrap_servers, control_url, pid: as it has announced them.
        token: that of its control port.
    """

    def __init__(self, options: Sequence[str]) -> None:
        """Start it with these options, and wait until it is ready.

        Raises:
            BrokerNotStarted: it ends instead; the text is its own.
        """
        self.token = secrets.token_urlsafe()
        # Settings in the environment of the test are not those of its broker.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")
        }
        # Its last words, for an error. A pipe would have to be read all the time.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_close`
        # -P: a file of the user's project must not hide a module that the broker imports.
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-P", "-m", "coterie", "serve"),
                *("--control", "0", "--control-file", "-", "--stop-with-input"),
                *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**environment, "COTERIE_CONTROL_TOKEN": self.token},
        )
        try:
            announced = self._announced()
        except BaseException:
            self.kill()
            raise
        self.bootstrap_servers: str = announced["bootstrap_servers"]
        self.control_url: str = announced["control_url"]
        self.pid: int = announced["pid"]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._close()

    def wait(self) -> None:
        """Wait until it ends in order.

        Raises:
            BrokerLeak: it does not, and is killed, or it has ended with an error.
        """
        try:
            code = self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            text = f"the broker's process {self.pid} has not ended within {_END_LIMIT_S:g} s"
            raise BrokerLeak(text) from None
        errors = self.last_words()
        self._close()
        if code:
            raise BrokerLeak(f"the broker's process has ended with exit code {code}: {errors}")

    def last_words(self) -> str:
        """Return what it has written to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def _announced(self) -> dict[str, Any]:
        """Read its output up to the line of JSON that says where it is."""
        assert self._process.stdout is not None, "the output is a pipe"
        handle = self._process.stdout.fileno()
        deadline_s = time.monotonic() + _START_LIMIT_S
        output = b""
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            readable, _, _ = select.select([handle], [], [], left_s)
            data = os.read(handle, _READ_BYTES) if readable else b""
            if not data:
                break
            output += data
            for line in output.splitlines(keepends=True):
                if line.startswith(b"{") and line.endswith(b"\n"):
                    announced: dict[str, Any] = json.loads(line)
                    return announced
        self._process.kill()
        self._process.wait()
        words = self.last_words().removeprefix("coterie serve: ")
        raise BrokerNotStarted(words or f"the broker's process was not ready in {_START_LIMIT_S} s")

    def _close(self) -> None:
        for file in (self._process.stdin, self._process.stdout, self._errors):
            assert file is not None, "input and output are pipes"
            file.close()
