"""A record that the application of a member cannot process, until somebody skips it."""

import time
from collections.abc import Iterable

from coterie.processes.lines import Partition

Place = tuple[str, int, int]

# How long an application waits before it tries again.
RETRY_S = 0.1


class Poison:
    """The poison record of a member; none before an order names it.

    Attributes:
        place: its topic, partition and offset; None without one.
    """

    def __init__(self) -> None:
        self.place: Place | None = None
        self._until_s = 0.0

    def ordered(self, topic: str, number: int, offset: int, seconds: float) -> None:
        """Take an order: the record fails for so long from now on."""
        self._until_s = time.monotonic() + seconds
        self.place = topic, number, offset

    def is_at(self, record: Place) -> bool:
        """Return whether a record fails now."""
        return record == self.place and time.monotonic() < self._until_s

    def before(self, records: Iterable[Place]) -> tuple[list[Place], Partition | None]:
        """Return the records that can be processed in order, and the partition that stands.

        Behind the record nothing of its partition is processed.
        """
        kept: list[Place] = []
        stands: Partition | None = None
        for record in records:
            partition = record[:2]
            if partition != stands and self.is_at(record):
                stands = partition
            if partition != stands:
                kept.append(record)
        return kept, stands
