"""The newest records of an in-memory log, and its compaction.

Durable records may be compacted: a record that a later one of the same key supersedes may be
missing afterwards, in any combination that the cleaner can leave [group-log/replay].
"""

from collections.abc import Iterator
from random import Random

from coterie.conformance.harness import Pair, PartitionLog


def is_pending(log: PartitionLog, number: int) -> bool:
    """Return whether a batch is neither durable nor lost."""
    return any(batch.number == number for batch in log.pending)


def newest(log: PartitionLog) -> dict[bytes, bytes]:
    """Return the last value of each key over all records, pending ones included."""
    values: dict[bytes, bytes] = {}
    for key, value in _pairs(log):
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values


def _pairs(log: PartitionLog) -> Iterator[Pair]:
    yield from log.durable
    for batch in log.pending:
        yield from batch.pairs


def newest_durable(log: PartitionLog, key: bytes) -> bytes | None:
    """Return the durable value of one key; None if there is none or it was deleted."""
    for each, value in reversed(log.durable):
        if each == key:
            return value
    return None


def compact(log: PartitionLog, rng: Random) -> None:
    """Keep only the newest record of each key in a random part of the durable records.

    A tombstone may go as well if no older record of its key is left, since the cleaner keeps it
    until every reader has seen it.
    """
    end = rng.randint(0, len(log.durable))
    start = rng.randint(0, end)
    last = {key: index for index, (key, _) in enumerate(log.durable[:end])}
    kept: list[Pair] = []
    kept_keys: set[bytes] = set()
    for index, (key, value) in enumerate(log.durable):
        cleaned = start <= index < end
        superseded = cleaned and last[key] != index
        removable = value is None and cleaned and key not in kept_keys and rng.random() < 0.5
        if not superseded and not removable:
            kept.append((key, value))
            kept_keys.add(key)
    log.durable = kept
