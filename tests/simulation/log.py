"""The log of one `__consumer_offsets` partition as a disk sees it: bytes that are durable, batches
that are not yet.

A batch is the records of one operation and is kept or lost as a whole (spec section 14.2). Durable
records may be compacted: what a later record of the same key supersedes may be missing afterwards,
in any combination the cleaner could leave (spec section 14.4).
"""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from coterie.coordinator.effects import LogRecord
from coterie.protocol.messages.log_records import encode_key, encode_value

Pair = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    """The records of one append; numbers grow over all partitions and lives."""

    number: int
    pairs: list[Pair]


def encode_pairs(records: list[LogRecord]) -> list[Pair]:
    """Keys and values as they stand in the log."""
    return [
        (encode_key(key), None if value is None else encode_value(value)) for key, value in records
    ]


class PartitionLog:
    """Durable records, oldest first, and the batches on their way."""

    def __init__(self) -> None:
        self.durable: list[Pair] = []
        self.pending: deque[Batch] = deque()
        self.acknowledged = -1  # number of the newest durable batch

    def append(self, batch: Batch) -> None:
        """A batch is on its way."""
        self.pending.append(batch)

    def acknowledge(self, count: int) -> None:
        """The oldest `count` batches are durable."""
        for _ in range(count):
            batch = self.pending.popleft()
            self.durable += batch.pairs
            self.acknowledged = batch.number

    def lose(self) -> list[Batch]:
        """Everything on its way is gone; returns it."""
        lost = list(self.pending)
        self.pending.clear()
        return lost

    def is_pending(self, number: int) -> bool:
        """Whether a batch is neither durable nor lost."""
        return any(batch.number == number for batch in self.pending)

    def pairs(self) -> Iterator[Pair]:
        """Every record, durable or not, in order."""
        yield from self.durable
        for batch in self.pending:
            yield from batch.pairs

    def newest(self) -> dict[bytes, bytes]:
        """What all records, durable or not, add up to: last value a key, tombstones applied."""
        return _newest(self.pairs())

    def newest_durable(self, key: bytes) -> bytes | None:
        """The durable value of one key."""
        for each, value in reversed(self.durable):
            if each == key:
                return value
        return None

    def compact(self, rng: Random) -> None:
        """Let the cleaner run over a window: of each key there, the newest record stays.

        A tombstone goes only where nothing older of its key is left, as the cleaner keeps it until
        every reader has seen it.
        """
        end = rng.randint(0, len(self.durable))
        start = rng.randint(0, end)
        last = {key: index for index, (key, _) in enumerate(self.durable[:end])}
        kept: list[Pair] = []
        left: set[bytes] = set()
        for index, (key, value) in enumerate(self.durable):
            superseded = start <= index < end and last[key] != index
            bare = value is None and start <= index < end and key not in left and rng.random() < 0.5
            if not superseded and not bare:
                kept.append((key, value))
                left.add(key)
        self.durable = kept


def _newest(pairs: Iterator[Pair]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for key, value in pairs:
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values
