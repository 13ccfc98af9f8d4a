"""A group member as a child process, and the lines that it writes."""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from coterie.processes.child import Child
from coterie.processes.lines import FileReader, Line

_PROGRAM = "coterie.processes.member"


def member_command(options: Mapping[str, object], program: str = _PROGRAM) -> list[str]:
    """Return the command line of a member.

    Args:
        options: its options, with underscores; None leaves one out, True is a flag, and a list
            repeats it.
        program: the module with the program.
    """
    command = [sys.executable, "-m", program]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(option)
        elif value is not None and value is not False:
            values = value if isinstance(value, list) else [value]
            command += [f"{option}={each}" for each in values]
    return command


class MemberProcess(Child):
    """A running or ended member.

    Attributes:
        library: the client library that it uses.
    """

    def __init__(
        self,
        library: str,
        options: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program.

        Args:
            library: its client library.
            options: its other options, with underscores.
            environment: its variables; None for those of this process.

        Raises:
            ProcessFailed: it can't be started.
        """
        self.library = library
        self._place = tempfile.TemporaryDirectory(prefix="coterie-member-")
        lines = Path(self._place.name, "member.jsonl")
        lines.touch()
        self._reader = FileReader(lines)
        command = member_command({"library": library, **options, "lines": lines})
        log = Path(self._place.name, "member.log")
        super().__init__(f"A member with {library}", command, log, environment)

    def new_lines(self) -> list[Line]:
        """Return the lines written since the last call."""
        return self._reader.new_lines()

    def send(self, order: Mapping[str, object]) -> None:
        """Give it an order."""
        self.write(json.dumps(order))

    def close(self) -> None:
        """Kill it if it is still running, and remove its files."""
        self.kill()
        self._place.cleanup()
