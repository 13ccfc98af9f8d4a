"""The lines that the participants of a live run write: one JSON object each, to a file each.

Every line has `at`, in microseconds since 1970, and `event`:

    joined                                 the process has begun
    assigned, revoked, lost   partitions   [[topic, number], ...]; `lost` means without a commit
    taken                     partitions   all that it owns now, for clients without callbacks
    delivered                 batches      [[topic, number, first, last], ...] offsets handed over
    committed                 offsets      [[topic, number, offset], ...]
    generation                generation   the number, when it has changed
    attempt, gave-up                       a rebalance of a client that has no coordinator
    ending                                 no record is handed over from now on

The producer writes `produced` with `ends`: [[topic, number, end offset], ...]; the driver writes
what it does to processes: `started`, `stopped`, `killed`, `paused`, `resumed` and `exited`.
"""

import json
import time
from collections.abc import Iterator
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


class Reader:
    """Reads the lines of a directory as they come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}

    def new_lines(self) -> list[Line]:
        """Return the lines written since the last call, in order of time."""
        found: list[Line] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            found += self._new_lines(path)
        return sorted(found, key=lambda line: line.at_us)

    def _new_lines(self, path: Path) -> Iterator[Line]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        # A member that is killed, or writes at this moment, may leave a part of a line.
        whole, newline, _ = data.rpartition(b"\n")
        self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
        for text in whole.splitlines():
            fields = json.loads(text)
            yield Line(fields.pop("at"), path.stem, fields.pop("event"), fields)
