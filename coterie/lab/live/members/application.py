"""What the member programs share: options, lines, the wish to stop, and slow work."""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.lab.live.lines import Partition, Writer

# How long a poll waits for records; the reaction time to SIGTERM.
POLL_S = 0.1


class Options(NamedTuple):
    """The options of a member.

    Attributes:
        bootstrap: HOST:PORT.
        group, topics, client_id: what it is.
        instance: the instance id; None for a dynamic member.
        machine: the machine of the lab, which decides the assignor.
        session_ms, heartbeat_ms, rebalance_ms, commit_ms, poll_gap_ms, metadata_age_ms: as in the
            lab.
        lines: the file to write to.
    """

    bootstrap: str
    group: str
    topics: list[str]
    client_id: str
    instance: str | None
    machine: str
    session_ms: int
    heartbeat_ms: int
    rebalance_ms: int
    commit_ms: int
    poll_gap_ms: float
    metadata_age_ms: int
    lines: str


class Application:
    """The application in a member: it takes records and says what it does.

    Attributes:
        options: of the member.
        stopping: whether it has been asked to stop.
        positions: for each partition the offset to commit.
    """

    def __init__(self) -> None:
        self.options = Options(**json.loads(sys.argv[1]))
        self.stopping = threading.Event()
        self.positions: dict[Partition, int] = {}
        self._writer = Writer(self.options.lines)
        self._generation = -1
        self._committed_s = time.monotonic()
        self._slow_s = 0.0
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self.stopping.set())
        threading.Thread(target=self._listen, daemon=True).start()
        self._writer.write("joined")

    def _listen(self) -> None:
        """Take orders from standard input; its end means that the driver has ended."""
        for line in sys.stdin:
            _, _, seconds = line.partition("slow ")
            self._slow_s = float(seconds or 0)
        os._exit(1)

    # -- what it says ------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[Any]) -> None:
        """Say that partitions were assigned."""
        self._writer.write("assigned", partitions=_pairs(partitions))

    def revoked(self, partitions: Iterable[Any], event: str = "revoked") -> None:
        """Say that partitions are given up."""
        pairs = _pairs(partitions)
        self._writer.write(event, partitions=pairs)
        for topic, number in pairs:
            self.positions.pop((topic, number), None)

    def generation(self, number: int) -> None:
        """Say which generation the member is in, if it has changed."""
        if number != self._generation and number >= 0:
            self._generation = number
            self._writer.write("generation", generation=number)

    def take(self, batches: Iterable[tuple[str, int, int, int]]) -> None:
        """Take the records of a poll: topic, partition, first and last offset."""
        found = list(batches)
        if found:
            self._writer.write("delivered", batches=found)
            self.positions |= {(topic, number): last + 1 for topic, number, _, last in found}

    def committed(self, offsets: dict[Partition, int]) -> None:
        """Say that offsets are stored."""
        self._committed_s = time.monotonic()
        if offsets:
            committed = [[topic, number, offset] for (topic, number), offset in offsets.items()]
            self._writer.write("committed", offsets=committed)

    def failed(self, error: BaseException) -> None:
        """Say that a call of the library has failed."""
        self._writer.write("failed", text=repr(error))

    def ending(self) -> None:
        """Say that no record is taken from now on."""
        self._writer.write("ending")

    # -- what it does ------------------------------------------------------------------------------

    def commit_is_due(self) -> bool:
        """Return whether the interval between two commits has passed."""
        return time.monotonic() - self._committed_s >= self.options.commit_ms / 1_000

    def work_s(self) -> float:
        """Return how long the records of the last poll take."""
        slow_s, self._slow_s = self._slow_s, 0.0
        gap_ms = self.options.poll_gap_ms
        usual_s = random.expovariate(1_000 / gap_ms) if gap_ms else 0.0
        return slow_s + usual_s

    def work(self) -> None:
        """Work on the records of the last poll."""
        self.stopping.wait(self.work_s())


def _pairs(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)
