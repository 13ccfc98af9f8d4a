"""Appends of the group coordinator: from queued records to acknowledged operations.

All operations that one turn of the event loop queues for a partition become one write
[group-log/batches]. A batch has at most the size that a Kafka broker accepts, and all records of an
operation are in one batch [coordinator/operation].

Invariants: the coordinator learns of appends in the order in which it queued them, partition by
partition. After the first failed write or sync a partition acknowledges nothing more. What was
written in an earlier ownership of a partition is never acknowledged in a later one.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from coterie.coordinator.batch_size import (
    BATCH_OVERHEAD_BYTES,
    MAX_BATCH_BYTES,
    RECORD_OVERHEAD_BYTES,
)
from coterie.coordinator.effects import Append, Effects, LogRecord
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.messages.log_records import encode_key, encode_value
from coterie.protocol.records import encode_batch
from coterie.storage.errors import OutOfHandles, StorageError
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.logs.partition import Partition

# An encoded key and value.
Pair = tuple[bytes, bytes | None]

# After a shortage of file handles the records are written again after this time.
RETRY_S = 0.1


class UnexpectedOffset(Exception):  # noqa: N818 - describes what was found
    """The log does not end where the coordinator expects it: something else has written to it."""


class Ownership:
    """A period in which this broker coordinates a partition, from a load to its end.

    Attributes:
        next_offset: where the log ends if nothing else writes to it.
    """

    __slots__ = ("next_offset",)

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset


class GroupAppends:
    """Writes records of the coordinator and reports to it what has become durable."""

    def __init__(
        self,
        broker: "Broker",
        coordinator: GroupCoordinator,
        apply: Callable[[Effects], None],
        failed: Callable[[int, Exception], None],
        diverged: Callable[[int], None],
    ) -> None:
        """Start with an empty queue and no owned partition.

        Args:
            broker: its loop, flusher and pending writes are used.
            coordinator: learns of durable operations.
            apply: applies the effects of that.
            failed: called with a partition that cannot be written, and the reason.
            diverged: called with a partition whose log has an unexpected end.
        """
        self.partitions: list[Partition] = []
        # The codec of every batch [offsets/compression].
        self._codec = broker.config.get_int("offsets.topic.compression.codec")
        self._broker = broker
        self._coordinator = coordinator
        self._apply = apply
        self._failed = failed
        self._diverged = diverged
        self._queued: dict[int, list[list[LogRecord]]] = {}
        self._scheduled = False
        # Only these partitions are written to.
        self._owned: dict[int, Ownership] = {}

    def begin(self, index: int) -> None:
        """Begin to own a partition that has been loaded to the end of its log."""
        assert index not in self._owned, "a partition is loaded once in an ownership"
        self._owned[index] = Ownership(self.partitions[index].log.log_end_offset)

    def end(self, index: int) -> None:
        """End the ownership of a partition; its unacknowledged operations stay so."""
        self._queued.pop(index, None)
        self._owned.pop(index, None)

    def unsynced_logs(self) -> list[tuple[int, Log]]:
        """Return the logs of the owned partitions that have something to sync, with the indexes."""
        logs = [(index, self.partitions[index].log) for index in self._owned]
        return [(index, log) for index, log in logs if log.synced_offset < log.log_end_offset]

    def queue(self, append: Append) -> None:
        """Queue an operation; it is written at the end of this turn of the event loop."""
        self._queued.setdefault(append.partition, []).append(append.records)
        if not self._scheduled:
            self._scheduled = True
            self._broker.loop.call_soon(self.write)

    def write(self) -> None:
        """Write everything that is queued."""
        self._scheduled = False
        queued, self._queued = self._queued, {}
        # Acknowledging sends many responses: collect them for one write a connection.
        pending_writes = self._broker.pending_writes
        pending_writes.collecting = True
        try:
            self._write(queued)
        finally:
            pending_writes.collecting = False
            pending_writes.flush()

    def _write(self, queued: dict[int, list[list[LogRecord]]]) -> None:
        now_ms = self._broker.now_ms()
        for index, operations in queued.items():
            ownership = self._owned.get(index)
            if ownership is None:
                # The partition was given up within this loop, which answered its operations.
                continue
            written = 0
            try:
                for pairs, count in _batches(operations):
                    self._write_batch(ownership, index, pairs, now_ms)
                    written += count
            except UnexpectedOffset:
                self._diverged(index)
                continue
            except OutOfHandles as error:
                self._write_later(index, operations[written:], error)
            except (StorageError, OSError) as error:
                self._failed(index, error)
                continue
            except Exception as error:
                # A mistake of ours stops this partition instead of the whole server.
                log = self._broker.log
                log.error("group append failed", partition=index, exc_info=error)  # noqa: TRY400
                self._failed(index, error)
                continue
            if written:
                self._acknowledge(ownership, index, written, now_ms)

    def _write_later(
        self, index: int, operations: list[list[LogRecord]], error: OutOfHandles
    ) -> None:
        """Queue operations again, before those that were queued since [log/handle-shortage]."""
        assert operations, "a batch that was not written has operations"
        self._broker.handles_short(error)
        self._queued[index] = [*operations, *self._queued.get(index, ())]
        if not self._scheduled:
            self._scheduled = True
            self._broker.loop.call_later(RETRY_S, self.write)

    def _write_batch(
        self, ownership: Ownership, index: int, pairs: list[Pair], now_ms: int
    ) -> None:
        partition = self.partitions[index]
        log = partition.log
        if log.log_end_offset != ownership.next_offset:
            raise UnexpectedOffset
        partition.append_own(
            encode_batch(
                pairs,
                log.log_end_offset,
                now_ms,
                leader_epoch=log.leader_epoch,
                attributes=self._codec,
            )
        )
        ownership.next_offset += len(pairs)
        assert log.log_end_offset == ownership.next_offset, "each record has one offset"

    def _acknowledge(self, ownership: Ownership, index: int, operations: int, now_ms: int) -> None:
        """Report written operations to the coordinator, as soon as they are durable."""
        assert operations > 0, "a write has operations"
        flusher = self._broker.flusher
        log = self.partitions[index].log
        if not flusher.commit:
            flusher.appended(log)
            self._apply(self._coordinator.appended(index, operations, now_ms))
            return

        def synced(error: Exception | None) -> None:
            # The partition may have been given up and taken over again during the sync. Operations
            # of the earlier ownership have been answered with an error then.
            if error is None and self._owned.get(index) is ownership:
                now_ms = self._broker.now_ms()
                self._apply(self._coordinator.appended(index, operations, now_ms))

        flusher.appended(log, synced)


def _batches(operations: list[list[LogRecord]]) -> Iterator[tuple[list[Pair], int]]:
    """Yield the encoded records of operations in as few batches as the size limit allows.

    The number of operations of each batch is yielded with it.
    """
    pairs: list[Pair] = []
    size, count = BATCH_OVERHEAD_BYTES, 0
    for records in operations:
        # Where this operation begins: it moves to the next batch if this one gets too large.
        first, size_before = len(pairs), size
        for key, value in records:
            key_bytes = encode_key(key)
            value_bytes = None if value is None else encode_value(value)
            pairs.append((key_bytes, value_bytes))
            size += len(key_bytes) + len(value_bytes or b"") + RECORD_OVERHEAD_BYTES
        if size > MAX_BATCH_BYTES and first:
            yield pairs[:first], count
            pairs = pairs[first:]
            size -= size_before - BATCH_OVERHEAD_BYTES
            count = 0
        assert size <= MAX_BATCH_BYTES, "the coordinator refuses an operation larger than this"
        count += 1
    yield pairs, count
