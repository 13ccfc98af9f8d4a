"""Appends of a coordinator: from queued records to acknowledged operations.

All operations that one turn of the event loop queues for a partition become one write
[group-log/batches]. A batch has at most the size that a Kafka broker accepts, and all records of an
operation are in one batch [coordinator/durable-responses].

Invariants: appends are reported to the coordinator in the order in which it queued them, partition
by partition. After the first failed write or sync a partition acknowledges nothing more. What was
written in an earlier ownership of a partition is never acknowledged in a later one. What is behind
a high watermark that is held is not acknowledged before it moves [cluster/waiting-groups].
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from coterie.coordinator.kernel.append import (
    BATCH_OVERHEAD_BYTES,
    MAX_BATCH_BYTES,
    NO_RECORDS,
    RECORD_OVERHEAD_BYTES,
    Append,
    BatchForm,
    Pair,
    Record,
)
from coterie.protocol.records import encode_batch
from coterie.server.coordinators.host import Host
from coterie.storage.errors import OutOfHandles, StorageError
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.logs.partition import Partition

# After a shortage of file handles the records are written again after this time.
RETRY_S = 0.1


class UnexpectedOffset(Exception):  # noqa: N818 - describes what was found
    """The log does not end where the coordinator expects it: something else has written to it."""


class Ownership:
    """A period in which this broker coordinates a partition, from a load to its end.

    Attributes:
        index: the partition.
        log: its log.
        first_offset: where the log ended at the load.
        next_offset: where the log ends if nothing else writes to it.
        written: how many operations were written that the coordinator has not learnt of.
    """

    __slots__ = ("first_offset", "index", "log", "next_offset", "written")

    def __init__(self, index: int, log: Log) -> None:
        self.index = index
        self.log = log
        self.written = 0
        self.first_offset = self.next_offset = log.log_end_offset


class _Batch:
    """A batch to write, the number of its operations, and the header of a producer's batch."""

    __slots__ = ("form", "operations", "pairs")

    def __init__(self, pairs: list[Pair], operations: int, form: BatchForm | None) -> None:
        self.pairs = pairs
        self.operations = operations
        self.form = form


class Appends:
    """Writes records of a coordinator and reports what has become durable."""

    def __init__(
        self,
        host: Host,
        kind: str,
        codec: int,
        encode: Callable[[list[Record]], list[Pair]],
        appended: Callable[[list[tuple[int, int]], int], None],
        failed: Callable[[int, Exception], None],
        diverged: Callable[[int], None],
    ) -> None:
        """Start with an empty queue and no owned partition.

        Args:
            host: its loop, flusher and pending writes are used.
            kind: what the coordinator is about, for log lines.
            codec: the codec of every batch [offsets/compression].
            encode: encodes records.
            appended: called with partitions, each with the number of its oldest operations that
                have become durable, and the time.
            failed: called with a partition that cannot be written, and the reason.
            diverged: called with a partition whose log has an unexpected end.
        """
        self.partitions: list[Partition] = []
        self._host = host
        self._kind = kind
        self._codec = codec
        self._encode = encode
        self._appended = appended
        self._failed = failed
        self._diverged = diverged
        self._queued: dict[int, list[Append]] = {}
        self._scheduled = False
        # Operations that are written at once, and whether this is being done.
        self._urgent: deque[Append] = deque()
        self._writing = False
        # Only these partitions are written to.
        self._owned: dict[int, Ownership] = {}
        # How many operations of a partition wait for its high watermark.
        self._held: dict[int, int] = {}

    def begin(self, index: int) -> None:
        """Begin to own a partition that has been loaded to the end of its log."""
        assert index not in self._owned, "a partition is loaded once in an ownership"
        self._owned[index] = Ownership(index, self.partitions[index].log)

    def end(self, index: int) -> None:
        """End the ownership of a partition; its unacknowledged operations stay so."""
        self._queued.pop(index, None)
        self._owned.pop(index, None)
        self._held.pop(index, None)

    def release(self, index: int) -> None:
        """Acknowledge what has waited for the high watermark of a partition."""
        operations = self._held.pop(index, 0)
        if operations:
            self._appended([(index, operations)], self._host.now_ms())

    def owns(self, index: int) -> bool:
        """Return whether a partition is owned, and so written to."""
        return index in self._owned

    def first_offset(self, index: int) -> int:
        """Return the offset of the first record that was or will be written to an owned partition.

        Records that were loaded are before it.
        """
        return self._owned[index].first_offset

    def unsynced_logs(self) -> list[tuple[int, Log]]:
        """Return the logs of the owned partitions that have something to sync, with the indexes."""
        logs = [(index, self.partitions[index].log) for index in self._owned]
        return [(index, log) for index, log in logs if log.synced_offset < log.log_end_offset]

    def queue(self, append: Append) -> None:
        """Queue an operation; it is written at the end of this turn of the event loop."""
        queued = self._queued.get(append.partition)
        if queued is None:
            self._queued[append.partition] = [append]
        else:
            queued.append(append)
        if not self._scheduled:
            self._scheduled = True
            self._host.loop.call_soon(self.write)

    def write_now(self, appends: Sequence[Append]) -> None:
        """Write operations at once, because batches of their own gain nothing by waiting.

        Those that follow from what became durable meanwhile are written behind them.
        """
        urgent = self._urgent
        urgent.extend(appends)
        if self._writing:
            return
        self._writing = True
        now_ms = self._host.now_ms()
        try:
            while urgent:
                append = urgent.popleft()
                waiting = self._queued.get(append.partition)
                if waiting is None:
                    ownership = self._write_partition(append.partition, [append], now_ms)
                    if ownership is not None:
                        self._acknowledge([ownership], now_ms)
                else:
                    # After a shortage of file handles it is written behind those before it.
                    waiting.append(append)
        finally:
            self._writing = False

    def write(self) -> None:
        """Write everything that is queued."""
        self._scheduled = False
        queued, self._queued = self._queued, {}
        # Acknowledging sends many responses: collect them for one write a connection.
        pending_writes = self._host.pending_writes
        pending_writes.collecting = True
        try:
            self._write(queued)
        finally:
            pending_writes.collecting = False
            pending_writes.flush()

    def _write(self, queued: dict[int, list[Append]]) -> None:
        now_ms = self._host.now_ms()
        written: list[Ownership] = []
        for index, operations in queued.items():
            ownership = self._write_partition(index, operations, now_ms)
            if ownership is not None:
                written.append(ownership)
        if written:
            # One call for all partitions takes less time than one for each.
            self._acknowledge(written, now_ms)

    def _write_partition(
        self, index: int, operations: list[Append], now_ms: int
    ) -> Ownership | None:
        """Write operations to a partition; return its ownership if some were written."""
        ownership = self._owned.get(index)
        if ownership is None:
            # The partition was given up meanwhile, which answered its operations.
            return None
        written = 0
        try:
            if len(operations) == 1:
                operation = operations[0]
                pairs = _only_pairs(operation, self._encode)
                self._write_batch(ownership, index, pairs, operation.form, now_ms)
                written = 1
            else:
                for batch in _batches(operations, self._encode):
                    self._write_batch(ownership, index, batch.pairs, batch.form, now_ms)
                    written += batch.operations
        except UnexpectedOffset:
            self._diverged(index)
            return None
        except OutOfHandles as shortage:
            self._write_later(index, operations[written:], shortage)
        except (StorageError, OSError) as error:
            self._failed(index, error)
            return None
        except Exception as mistake:
            # A mistake of ours stops this partition instead of the whole server.
            line = f"{self._kind} append failed"
            self._host.log.error(line, partition=index, exc_info=mistake)  # noqa: TRY400
            self._failed(index, mistake)
            return None
        if not written:
            return None
        for operation in operations if written == len(operations) else operations[:written]:
            # The log has them from now on.
            operation.records, operation.pairs = NO_RECORDS, None
        ownership.written = written
        return ownership

    def _write_later(self, index: int, operations: list[Append], error: OutOfHandles) -> None:
        """Queue operations again, before those that were queued since [log/handle-shortage]."""
        assert operations, "a batch that was not written has operations"
        self._host.handles_short(error)
        self._queued[index] = [*operations, *self._queued.get(index, ())]
        if not self._scheduled:
            self._scheduled = True
            self._host.loop.call_later(RETRY_S, self.write)

    def _write_batch(
        self,
        ownership: Ownership,
        index: int,
        pairs: list[Pair],
        form: BatchForm | None,
        now_ms: int,
    ) -> None:
        partition, log = self.partitions[index], ownership.log
        assert partition.opened_log is log, "a log stays open while its partition is owned"
        if log.log_end_offset != ownership.next_offset:
            raise UnexpectedOffset
        base_offset = log.log_end_offset
        made = 0
        if form is None:
            data = encode_batch(
                pairs,
                base_offset,
                now_ms,
                leader_epoch=log.leader_epoch,
                attributes=self._codec,
            )
            made = len(pairs)
        else:
            attributes, producer_id, producer_epoch, base_sequence = form
            data = encode_batch(
                pairs,
                base_offset,
                now_ms,
                leader_epoch=log.leader_epoch,
                attributes=attributes,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
            )
        partition.append_own(data, now_ms, made)
        ownership.next_offset += len(pairs)
        assert log.log_end_offset == ownership.next_offset, "each record has one offset"

    def _acknowledge(self, written: list[Ownership], now_ms: int) -> None:
        """Report written operations to the coordinator, as soon as they are durable."""
        flusher = self._host.flusher
        durable: list[tuple[int, int]] = []
        for ownership in written:
            operations, ownership.written = ownership.written, 0
            assert operations > 0, "a write has operations"
            if flusher.commit:
                self._acknowledge_synced(ownership, operations)
                continue
            flusher.appended(ownership.log)
            if self._is_due(ownership, operations):
                durable.append((ownership.index, operations))
        if durable:
            self._appended(durable, now_ms)

    def _acknowledge_synced(self, ownership: Ownership, operations: int) -> None:
        def synced(error: Exception | None) -> None:
            if error is None and self._is_due(ownership, operations):
                self._appended([(ownership.index, operations)], self._host.now_ms())

        self._host.flusher.appended(ownership.log, synced)

    def _is_due(self, ownership: Ownership, operations: int) -> bool:
        """Return whether durable operations are reported now; hold them if replicas are missing."""
        index = ownership.index
        if self._owned.get(index) is not ownership:
            # The partition was given up during the sync, or with another one that could not be
            # written, and may be taken over again. These operations have been answered then.
            return False
        if self.partitions[index].held_end is None:
            return True
        self._held[index] = self._held.get(index, 0) + operations
        return False


def _only_pairs(operation: Append, encode: Callable[[list[Record]], list[Pair]]) -> list[Pair]:
    """Return the records of an operation that no other one is written with."""
    pairs, operation.pairs = operation.pairs, None
    if pairs is None:
        pairs = encode(operation.records)
    size = BATCH_OVERHEAD_BYTES
    for key, value in pairs:
        size += len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
    assert size <= MAX_BATCH_BYTES, "the coordinator refuses an operation larger than this"
    if operation.marker is not None:
        pairs.append(operation.marker)
    return pairs


def _batches(
    operations: list[Append], encode: Callable[[list[Record]], list[Pair]]
) -> Iterator[_Batch]:
    """Yield operations as batches: as few as the size limit and batches of producers allow."""
    pairs: list[Pair] = []
    size, count = BATCH_OVERHEAD_BYTES, 0
    for operation in operations:
        form = operation.form
        # Where this operation begins: it moves to the next batch if this one gets too large.
        first, size_before = len(pairs), size
        encoded, operation.pairs = operation.pairs, None
        # Without a call, which would be a measurable part of a small commit.
        for pair in encode(operation.records) if encoded is None else encoded:
            pairs.append(pair)
            size += len(pair[0]) + len(pair[1] or b"") + RECORD_OVERHEAD_BYTES
        if form is not None and operation.marker is not None:
            pairs.append(operation.marker)
        if first and (form is not None or size > MAX_BATCH_BYTES):
            yield _Batch(pairs[:first], count, None)
            pairs = pairs[first:]
            size -= size_before - BATCH_OVERHEAD_BYTES
            count = 0
        assert size <= MAX_BATCH_BYTES, "the coordinator refuses an operation larger than this"
        count += 1
        if form is not None:
            yield _Batch(pairs, 1, form)
            pairs = []
            size, count = BATCH_OVERHEAD_BYTES, 0
    if pairs:
        yield _Batch(pairs, count, None)
