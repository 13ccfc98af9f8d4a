"""The interface between a coordinator and its runtime.

A coordinator keeps its state in the records of an internal topic. It is a `Machine`: it is given
the time, requests and records, and returns what is to be done. The runtime owns the logs, the event
loop and the connections; it carries out what a machine returns, and reports back what has become
durable (ADR 16). It uses nothing else of a machine, so it serves every coordinator: those of
groups, of transactions and of share groups.

The runtime calls a machine in this order for each partition: `begin_load`; `replay` for each record
that the reader of the log has left; `replay_open` for each record of an open transaction;
`finish_load`; then the machine serves requests, and each of its appends is acknowledged with
`appended` in the order in which they were made, until `unload`, `fail` or `append_failed`. After
`append_failed` the load has begun already, under the same epoch.

A machine refuses an operation that does not fit a batch before it changes anything, and splits what
may be split [coordinator/operation-size].
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode


class OpenRecord(NamedTuple):
    """A record of a transaction that has not ended at the end of the log.

    Attributes:
        producer_id, producer_epoch: of its batch.
        key, value: of the record; without a value it is a tombstone.
        overtaken: whether a record of the same key with a larger offset counts already.
    """

    producer_id: int
    producer_epoch: int
    key: bytes
    value: bytes | None
    overtaken: bool


class LogReader(Protocol):
    """Reduces the log of a partition, while it is read, to the records that are to be replayed.

    Attributes:
        records: how many records were read.
        skipped: the number of records of each unknown type.
    """

    skipped: Counter[int]

    @property
    def records(self) -> int:
        """See the class."""

    def add_batches(self, data: bytes) -> None:
        """Add whole batches, in the order of the log.

        Raises:
            MalformedFrame: the bytes are not such batches.
        """

    def survivors(self) -> Iterator[Pair]:
        """Yield what is to be replayed, and forget it."""

    def open_records(self) -> Iterator[OpenRecord]:
        """Yield the records of open transactions in the order of the log; before `survivors`."""


class Machine(Protocol):
    """A coordinator, as its runtime sees it."""

    # -- the log of a partition --------------------------------------------------------------------

    def epoch(self, partition: int) -> int:
        """Return the leader epoch of the latest load or unload; -1 before the first."""

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Start to load a partition; return False if there is nothing to load.

        That is so if the epoch is not newer than the present one, or if the partition is loading or
        loaded already [coordinator/epochs].
        """

    def reader(self) -> LogReader:
        """Return a reader for the log of a partition."""

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of a partition that is being loaded.

        Raises:
            MalformedFrame: the record cannot be decoded.
        """

    def replay_open(self, partition: int, record: OpenRecord) -> None:
        """Apply one record of a transaction that is open at the end of the log, after all others.

        Raises:
            MalformedFrame: the record cannot be decoded.
        """

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> Effects[Any]:
        """Serve a partition whose log has been read to its end.

        Args:
            partition: its number.
            now_ms: the time.
            skipped_records: the number of records that the reader of the log has left out.
        """

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> Effects[Any]:
        """Give a partition up [coordinator/unload].

        Nothing happens if `epoch` is given and not newer than the present one [coordinator/epochs].
        """

    def fail(self, partition: int, now_ms: int) -> Effects[Any]:
        """Give up a partition whose log cannot be used [coordinator/unload]."""

    # -- appends -----------------------------------------------------------------------------------

    def encode(self, records: list[Record]) -> list[Pair]:
        """Return keys and values of records as bytes."""

    def appended(self, written: list[tuple[int, int]], now_ms: int) -> Effects[Any]:
        """Acknowledge the oldest appends of partitions as durable.

        If what follows from one of them fails by a mistake of ours, the others are acknowledged all
        the same, and the mistake is in the effects.

        Args:
            written: partitions, and how many appends of each.
            now_ms: the time.
        """

    def hold(self, partition: int, now_ms: int) -> Effects[Any]:
        """Note that appends are not acknowledged for now: too few replicas are in sync.

        The partition serves requests [cluster/waiting-groups].
        """

    def release(self, partition: int) -> Effects[Any]:
        """Note that enough replicas are in sync again; `appended` follows."""

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> Effects[Any]:
        """Answer what waits for a lost append, and start to load the partition again.

        The epoch stays [coordinator/failed-append].
        """

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next; None without a timer."""

    def advance(self, now_ms: int) -> Effects[Any]:
        """Handle all timers that are due."""

    # -- for people --------------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        """Return what the machine holds, by name, for the log line of a load."""
