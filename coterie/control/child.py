"""The process of a broker, as its parent sees it."""

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.processes import Child, ProcessFailed
from coterie.testing.errors import BrokerLeak, BrokerNotStarted

# A busy machine needs some seconds for what takes 300 ms.
_START_LIMIT_S = 60.0
_END_LIMIT_S = 15.0


class ControlledBroker:
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
        # -P: a file of the user's project must not hide a module that the broker imports.
        command = [
            *(sys.executable, "-P", "-m", "coterie", "serve"),
            *("--control", "0", "--control-file", "-", "--stop-with-input"),
            *options,
        ]
        self._place = tempfile.TemporaryDirectory(prefix="coterie-")
        output = Path(self._place.name, "output")
        self._child = Child(
            "coterie", command, output, {**environment, "COTERIE_CONTROL_TOKEN": self.token}
        )
        try:
            line = self._child.wait_for_line(r"\{", _START_LIMIT_S)
        except ProcessFailed:
            self._child.kill()
            words = self.last_words().removeprefix("coterie serve: ")
            self._place.cleanup()
            late = f"the broker's process was not ready in {_START_LIMIT_S} s"
            raise BrokerNotStarted(words or late) from None
        except BaseException:
            self.kill()
            raise
        announced: dict[str, Any] = json.loads(line[0])
        self.bootstrap_servers: str = announced["bootstrap_servers"]
        self.control_url: str = announced["control_url"]
        self.pid: int = announced["pid"]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._child.running

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._child.kill()
        self._place.cleanup()

    def wait(self) -> None:
        """Wait until it ends in order.

        Raises:
            BrokerLeak: it does not, and is killed, or it has ended with an error.
        """
        try:
            code = self._child.wait(_END_LIMIT_S)
            if code:
                text = f"has ended with exit code {code}: {self.last_words()}"
                raise BrokerLeak(f"the broker's process {text}")
        except ProcessFailed:
            text = f"the broker's process {self.pid} has not ended within {_END_LIMIT_S:g} s"
            raise BrokerLeak(text) from None
        finally:
            self._place.cleanup()

    def last_words(self) -> str:
        """Return what it has written since it was ready."""
        return self._child.rest().strip()
