"""The lines that the participants of a run write: one JSON object each, to a file each.

Every line has `at`, in microseconds since 1970, and `event`:

    ready                                  the process has begun, and has its library
    assigned, revoked, lost   partitions   [[topic, number], ...]; `lost` means without a commit
    taken                     partitions   all that it owns now, for clients without callbacks
    delivered                 batches      [[topic, number, first, last], ...] offsets handed over
    committed                 offsets      [[topic, number, offset], ...]
    commit-failed, error      code, text   what the library says
    generation                generation   the number, when it has changed
    membership                generation, member_id, partitions: all of it, when one has changed
    stuck                     partitions   a record in them fails, and is tried again
    attempt, gave-up                       a rebalance of a client that has no coordinator
    ending                                 no record is handed over from now on
    closed                    code         the process ends with this exit code

The producer of the lab writes `produced` with `ends`: [[topic, number, end offset], ...]; its
driver writes what it does to processes: `started`, `stopped`, `killed`, `paused`, `resumed` and
`exited`; and `skipped`, when a record that failed can be processed.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

Partition = tuple[str, int]


class Line(NamedTuple):
    """A line.

    Attributes:
        at_us: microseconds since 1970.
        member: who wrote it: `pod.life`, "producer" or "driver".
        event: its kind.
        fields: the rest.
    """

    at_us: int
    member: str
    event: str
    fields: dict[str, Any]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of the line."""
        return [(topic, number) for topic, number in self.fields.get("partitions", ())]


def now_us() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1_000


class Writer:
    """Writes lines to a file; each is there when `write` returns, even if the process is killed."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the process

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, event: str, **fields: object) -> None:
        """Write a line about now."""
        self.write_at(now_us(), event, **fields)

    def write_at(self, at_us: int, event: str, **fields: object) -> None:
        """Write a line about a time."""
        line = json.dumps({"at": at_us, "event": event, **fields}, separators=(",", ":"))
        self._file.write(f"{line}\n".encode())


class FileReader:
    """Reads the lines of a file as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def new_lines(self) -> list[Line]:
        """Return the lines written since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        # A member that is killed, or writes at this moment, may leave a part of a line.
        whole, newline, _ = data.rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        every = [json.loads(text) for text in whole.splitlines()]
        return [Line(each.pop("at"), self._path.stem, each.pop("event"), each) for each in every]


class Reader:
    """Reads the lines of a directory as they come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, FileReader] = {}

    def new_lines(self) -> list[Line]:
        """Return the lines written since the last call, in order of time."""
        found: list[Line] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            found += self._files.setdefault(path, FileReader(path)).new_lines()
        return sorted(found, key=lambda line: line.at_us)
