"""The coordinator's records on their way into the log, and word of them on its way back.

Appends of one turn of the event loop become one write per partition; a batch never exceeds what a
Kafka broker accepts, and all records of an operation stand in one batch.

Invariants: the coordinator is told of appends in the order in which it asked for them, per
partition; after the first failed write or sync a partition acknowledges nothing more; what belongs
to an earlier ownership of a partition is never acknowledged in a later one.
"""

from collections.abc import Callable
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
from coterie.storage.errors import StorageError

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.logs.partition import Partition

Pair = tuple[bytes, bytes | None]


class UnexpectedOffset(Exception):  # noqa: N818 - says what was found
    """The log does not end where memory says that it does: somebody else has written to it."""


class Ownership:
    """One stretch of time in which a partition is coordinated here.

    Attributes:
        next_offset: where the log has to end, if memory and log agree.
    """

    __slots__ = ("next_offset",)

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset


class GroupAppends:
    """Writes what the coordinator wants appended."""

    def __init__(
        self,
        broker: "Broker",
        coordinator: GroupCoordinator,
        apply_effects: Callable[[Effects], None],
        failed: Callable[[int, Exception], None],
        parted: Callable[[int], None],
    ) -> None:
        """Nothing is queued yet.

        Args:
            broker: whose loop, pending_writes and flusher are used.
            coordinator: told of what is durable.
            apply_effects: does what follows from that.
            failed: told of a partition that can't be written, and why.
            parted: told of a partition whose log is not what memory took it for.
        """
        self.partitions: list[Partition] = []
        self._broker = broker
        self._coordinator = coordinator
        self._carry_out = apply_effects
        self._failed = failed
        self._parted = parted
        self._queued: dict[int, list[list[LogRecord]]] = {}
        self._writing = False
        # The partitions that are written to.
        self._owned: dict[int, Ownership] = {}

    def begin(self, index: int) -> None:
        """A partition has been loaded to its log's end."""
        self._owned[index] = Ownership(self.partitions[index].log.log_end_offset)

    def end(self, index: int) -> None:
        """A partition is given up or has failed: what is not acknowledged never will be."""
        self._queued.pop(index, None)
        self._owned.pop(index, None)

    def queue(self, append: Append) -> None:
        """Write an operation at the end of this turn of the loop."""
        self._queued.setdefault(append.partition, []).append(append.records)
        if not self._writing:
            self._writing = True
            self._broker.loop.call_soon(self.write)

    def write(self) -> None:
        """Write what this turn of the event loop has queued."""
        self._writing = False
        queued, self._queued = self._queued, {}
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
            owned = self._owned.get(index)
            if owned is None:
                # Given up by what this very loop has led to, and its operations answered.
                continue
            try:
                self._write_operations(owned, index, operations, now_ms)
            except UnexpectedOffset:
                self._parted(index)
                continue
            except (StorageError, OSError) as error:
                self._failed(index, error)
                continue
            except Exception as error:
                # Our mistake, whatever it is: it stops this partition and not the server.
                log = self._broker.log
                log.error("group append failed", partition=index, exc_info=error)  # noqa: TRY400
                self._failed(index, error)
                continue
            self._acknowledge(owned, index, len(operations), now_ms)

    def _write_operations(
        self, owned: Ownership, index: int, operations: list[list[LogRecord]], now_ms: int
    ) -> None:
        """Write operations in as few legal batches as they fit into."""
        partition = self.partitions[index]
        pairs: list[Pair] = []
        size = BATCH_OVERHEAD_BYTES
        for records in operations:
            # Where this operation's records begin: they go into the next batch if this one is full.
            first, before = len(pairs), size
            for key, value in records:
                key_bytes = encode_key(key)
                value_bytes = None if value is None else encode_value(value)
                pairs.append((key_bytes, value_bytes))
                size += len(key_bytes) + len(value_bytes or b"") + RECORD_OVERHEAD_BYTES
            if size > MAX_BATCH_BYTES and first:
                self._write_batch(owned, partition, pairs[:first], now_ms)
                pairs = pairs[first:]
                size -= before - BATCH_OVERHEAD_BYTES
            assert size <= MAX_BATCH_BYTES, "the coordinator refuses what fits no batch"
        self._write_batch(owned, partition, pairs, now_ms)

    def _write_batch(
        self, owned: Ownership, partition: "Partition", pairs: list[Pair], now_ms: int
    ) -> None:
        log = partition.log
        if log.log_end_offset != owned.next_offset:
            raise UnexpectedOffset
        partition.append_own(
            encode_batch(pairs, log.log_end_offset, now_ms, leader_epoch=log.leader_epoch)
        )
        owned.next_offset += len(pairs)

    def _acknowledge(self, owned: Ownership, index: int, operations: int, now_ms: int) -> None:
        """Tell the coordinator of durable operations, now or when they are."""
        flusher = self._broker.flusher
        log = self.partitions[index].log
        if not flusher.commit:
            flusher.appended(log)
            self._carry_out(self._coordinator.appended(index, operations, now_ms))
            return

        def synced(error: Exception | None) -> None:
            # Only while it is the same ownership: an earlier one's operations have been answered.
            if error is None and self._owned.get(index) is owned:
                now_ms = self._broker.now_ms()
                self._carry_out(self._coordinator.appended(index, operations, now_ms))

        flusher.appended(log, synced)
