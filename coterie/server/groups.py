"""Between connections and the coordinator: asks it, and carries out what it wants done.

The coordinator is pure; this is the only place that turns its effects into appends, answers, log
lines and a timer. Appends of one turn of the event loop become one write per partition; a batch
never exceeds what a Kafka broker accepts, and all records of an operation stand in one batch.

Invariants: the coordinator is told of appends in the order in which it asked for them, per
partition; after the first failed write or sync a partition acknowledges nothing more.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator.effects import Append, Caller, Effects, LogRecord
from coordinator.service import GroupCoordinator
from coterie.server.event_log import EventLog
from coterie.server.group_log import Replay, replay_log
from coterie.server.replies import PendingReply
from protocol.errors import ErrorCode, MalformedFrame
from protocol.messages.log_records import encode_key, encode_value
from protocol.records import encode_batch
from storage.errors import StorageError
from storage.log import Log

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.connection import Connection
    from coterie.server.partition import Partition

Pair = tuple[bytes, bytes | None]

# The largest batch of the group log: Kafka's default max.message.bytes, so that a real broker can
# take the log over.
MAX_BATCH_BYTES = 1_048_588
# What a batch takes beside its records, and a record beside its key and value, at most.
_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 24
# The leader epoch of a single broker's partitions: nobody else ever led them.
LEADER_EPOCH = 0


class Groups:
    """The group coordinator at work."""

    def __init__(self, broker: "Broker", coordinator: GroupCoordinator) -> None:
        """Nothing is loaded yet: groups are not coordinated here."""
        self.coordinator = coordinator
        self._broker = broker
        self._events = EventLog(broker.log, unbounded=broker.log.is_enabled_for(logging.DEBUG))
        self._partitions: list[Partition] = []
        self._queued: dict[int, list[list[LogRecord]]] = {}
        self._writing = False
        # Partitions whose next operation is too large, until everything before it is durable.
        self._refusing: set[int] = set()
        self._unsynced: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    # --- requests ---------------------------------------------------------------------------------

    def ask(
        self,
        verb: Callable[[int, Any, Caller], Effects],
        request: Any,
        connection: "Connection",
        *,
        parks: bool = False,
        reply: Any = None,
    ) -> Any:
        """Ask the coordinator on behalf of a connection.

        Args:
            verb: a method of the coordinator.
            request: what it is asked.
            connection: whose request it is.
            parks: an answer that comes later holds the connection until then.
            reply: in place of the connection's own, something around it with a `send`.

        Returns:
            The answer, or None when it comes later.
        """
        place = PendingReply(connection)
        to = place if reply is None else reply.around(place)
        version = connection.route.version
        caller = Caller(connection.client_id, connection.client_host, version, to)
        effects = verb(connection.now_ms, request, caller)
        answer = effects.answer
        if answer is None:
            if parks:
                connection.park(place)
            else:
                connection.hold(place)
        if not effects.quiet:
            self.carry_out(effects)
        return answer

    def carry_out(self, effects: Effects) -> None:
        """Append the records, send the replies, tell the events, set the timer."""
        for append in effects.appends:
            self._queue(append)
        for reply in effects.replies:
            reply.to.send(reply.message)  # type: ignore[attr-defined]  # opaque to the coordinator
        for event in effects.events:
            self._events.tell(event)
        if effects.timers:
            self._set_timer()

    # --- appends ----------------------------------------------------------------------------------

    def _queue(self, append: Append) -> None:
        self._queued.setdefault(append.partition, []).append(append.records)
        if not self._writing:
            self._writing = True
            self._broker.loop.call_soon(self.write)

    def write(self) -> None:
        """Write what this turn of the event loop has queued."""
        self._writing = False
        queued, self._queued = self._queued, {}
        outbox = self._broker.outbox
        outbox.gathering = True
        try:
            self._write(queued)
        finally:
            outbox.gathering = False
            outbox.flush()

    def _write(self, queued: dict[int, list[list[LogRecord]]]) -> None:
        now_ms = self._broker.now_ms()
        for index, operations in queued.items():
            if index in self._refusing:
                # Behind an operation that will be refused, and with it.
                self._queued.setdefault(index, []).extend(operations)
                continue
            try:
                written = self._write_operations(index, operations, now_ms)
            except (StorageError, OSError) as error:
                self._fail(index, error)
                continue
            except Exception as error:
                # Our mistake, whatever it is: it stops this partition and not the server.
                log = self._broker.log
                log.error("group append failed", partition=index, exc_info=error)  # noqa: TRY400
                self._fail(index, error)
                continue
            if written:
                self._acknowledge(index, written, now_ms)
            if written < len(operations):
                self._refuse_rest(index)

    def _write_operations(self, index: int, operations: list[list[LogRecord]], now_ms: int) -> int:
        """Write as many operations as fit into legal batches; returns how many were written."""
        partition = self._partitions[index]
        pairs: list[Pair] = []
        size = _BATCH_OVERHEAD_BYTES
        written = 0
        for records in operations:
            # Where this operation's records begin: they go into the next batch if this one is full.
            first, before = len(pairs), size
            for key, value in records:
                key_bytes = encode_key(key)
                value_bytes = None if value is None else encode_value(value)
                pairs.append((key_bytes, value_bytes))
                size += len(key_bytes) + len(value_bytes or b"") + _RECORD_OVERHEAD_BYTES
            if size > MAX_BATCH_BYTES:
                if first:
                    self._write_batch(partition, pairs[:first], now_ms)
                pairs = pairs[first:]
                size -= before - _BATCH_OVERHEAD_BYTES
                if size > MAX_BATCH_BYTES:
                    return written
            written += 1
        self._write_batch(partition, pairs, now_ms)
        return written

    def _write_batch(self, partition: "Partition", pairs: list[Pair], now_ms: int) -> None:
        log = partition.log
        partition.append_own(
            encode_batch(pairs, log.log_end_offset, now_ms, leader_epoch=log.leader_epoch)
        )

    def _acknowledge(self, index: int, operations: int, now_ms: int) -> None:
        """Tell the coordinator of durable operations, now or when they are."""
        flusher = self._broker.flusher
        log = self._partitions[index].log
        if not flusher.commit:
            flusher.appended(log)
            self.carry_out(self.coordinator.appended(index, operations, now_ms))
            return
        self._unsynced[index] = self._unsynced.get(index, 0) + operations

        def synced(error: Exception | None) -> None:
            if error is None and index in self._unsynced:
                self._unsynced[index] -= operations
                done = self.coordinator.appended(index, operations, self._broker.now_ms())
                self.carry_out(done)
                if index in self._refusing:
                    self._refuse_rest(index)

        flusher.appended(log, synced)

    def _refuse_rest(self, index: int) -> None:
        """Refuse an operation that fits no batch, and those behind it; what is before it stands."""
        self._refusing.add(index)
        if self._unsynced.get(index):
            return
        self._refusing.discard(index)
        self._queued.pop(index, None)
        self._broker.log.error("group operation too large", partition=index)
        refused = self.coordinator.append_failed(
            index, ErrorCode.MESSAGE_TOO_LARGE, self._broker.now_ms()
        )
        self.carry_out(refused)

    def log_failed(self, log: Log, error: Exception) -> None:
        """A log could not be synced; if it is one of ours, its partition stops."""
        for partition in self._partitions:
            if partition.opened_log is log:
                self._fail(partition.index, error)

    def _fail(self, index: int, error: Exception) -> None:
        """Stop a partition: what it has not acknowledged never will be."""
        now_ms = self._broker.now_ms()
        self._queued.pop(index, None)
        self._unsynced.pop(index, None)
        self._refusing.discard(index)
        self._broker.log.error("group partition failed", partition=index, error=str(error))
        failed = self.coordinator.append_failed(index, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
        self.carry_out(failed)
        self.carry_out(self.coordinator.fail(index, now_ms))
        self._queued.pop(index, None)
        self._broker.partition_failed(index)

    # --- loading ----------------------------------------------------------------------------------

    def take_over(self, partitions: "list[Partition]") -> None:
        """Begin to load these partitions; groups are told to wait until they are loaded."""
        self._partitions = partitions
        for partition in partitions:
            self.coordinator.begin_load(partition.index, LEADER_EPOCH)

    async def load(self) -> None:
        """Read every partition back; a damaged one is not served, the others are."""
        for partition in self._partitions:
            index = partition.index
            try:
                for _ in replay_log(partition.log, _replayer(self.coordinator, index)):
                    await asyncio.sleep(0)
            except (MalformedFrame, StorageError, OSError) as error:
                self._broker.log.error(  # noqa: TRY400 - damage is told by the text, not by our stack
                    "group partition not loaded", partition=index, error=str(error)
                )
                self.carry_out(self.coordinator.fail(index, self._broker.now_ms()))
                self._broker.partition_failed(index)
                continue
            self.carry_out(self.coordinator.finish_load(index, self._broker.now_ms()))

    # --- time -------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Wake at the coordinator's next deadline; a timer set for earlier stays."""
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._broker.now_ms())
        self._timer = self._broker.loop.call_later(delay_ms / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.carry_out(self.coordinator.advance(self._broker.now_ms()))
        self._set_timer()

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Answer who waits: the coordinator of their groups is here no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._broker.now_ms()
        for partition in self._partitions:
            effects = self.coordinator.unload(partition.index, None, now_ms)
            for reply in effects.replies:
                reply.to.send(reply.message)  # type: ignore[attr-defined]  # as above


def _replayer(coordinator: GroupCoordinator, index: int) -> Replay:
    def replay(key: bytes | None, value: bytes | None) -> None:
        coordinator.replay(index, key, value)

    return replay
