"""What the ledger of a run keeps: partitions with their readers, intervals, and counters."""

from typing import NamedTuple

from coterie.lab.gaps import CAUSES, WAITING, Gap
from coterie.lab.kernel import SECOND
from coterie.lab.workload import Progress


class Interval(NamedTuple):
    """A time in which a partition has a reader, or has none for a cause.

    Attributes:
        partition: its number in the workload.
        from_us, to_us: the time.
        owner: the reader; None without one.
        cause: why there is no reader; "" with one.
    """

    partition: int
    from_us: int
    to_us: int
    owner: str | None
    cause: str


class Reader:
    """A member that reads a partition, or a paused one that will go on."""

    __slots__ = ("active", "began_us", "flushed", "progress")

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.began_us = progress.since_us
        self.flushed = progress.offset
        self.active = True


class PartitionEntry:
    """What the ledger keeps of one partition.

    Attributes:
        number: its number in the workload.
        readers, believers: the members that read it, or will when they go on; those that own it.
        gap: the time without a reader that is going on; None with a reader.
        last_owner: the last member that began to read.
        high, committed: the offsets up to which records were delivered and committed.
        dark: whether its broker is down, so that no member can read.
    """

    __slots__ = (
        "believers",
        "committed",
        "dark",
        "gap",
        "high",
        "last_owner",
        "number",
        "readers",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.readers: dict[str, Reader] = {}
        self.believers: set[str] = set()
        self.gap: Gap | None = Gap(0, None, WAITING)
        self.last_owner: str | None = None
        self.high = 0
        self.committed = 0
        self.dark = False

    @property
    def active(self) -> int:
        """The number of members that read it now."""
        return 0 if self.dark else sum(reader.active for reader in self.readers.values())


class Counters:
    """What is counted during the window; times in microseconds times partitions."""

    def __init__(self) -> None:
        self.causes = dict.fromkeys(CAUSES, 0)
        self.unowned_us = 0
        self.partition_us = 0
        self.double_us = 0
        self.contested_us = 0
        self.split_us = 0
        self.moves = 0
        self.fewest_moves = 0
        self.generations = 0
        self.attempts = 0
        self.give_ups = 0
        self.delivered = 0
        self.duplicates = 0
        self.rewinds = 0
        self.lost = 0
        self.peak_backlog = 0
        self.drained_us = 0

    def ownership(self) -> dict[str, float | None]:
        """Return the metrics that are about owners; times in seconds."""
        return {
            "unowned": in_seconds(self.unowned_us),
            "unavailability": self.unowned_us / max(1, self.partition_us),
            "double": in_seconds(self.double_us),
            "split_s": in_seconds(self.split_us),
            "moves": self.moves,
            "fewest_moves": self.fewest_moves,
            "needless": max(0, self.moves - self.fewest_moves),
            "generations": self.generations,
            "attempts": self.attempts,
            "give_ups": self.give_ups,
        }


def in_seconds(us: int) -> float:
    """Return microseconds as seconds."""
    return round(us / SECOND, 6)
