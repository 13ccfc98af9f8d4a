"""Between connections and the coordinator: asks it, and carries out what it wants done.

The coordinator is pure; this is the only place that turns its effects into appends, answers, log
lines and a timer. How appends reach the log is told in `group_appends.py`, how partitions are
loaded in `group_loading.py`; here they are taken over, given up, and stopped when their log fails.

Invariant: a partition is written to only between the end of its load and the moment it is given up
    or fails; after the first failed write or sync it never is again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.coordinator.effects import Effects, RequestContext
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.messages.log_records import OffsetCommitKey
from coterie.server.groups.appends import GroupAppends
from coterie.server.groups.event_log import EventLog
from coterie.server.groups.journal import Journal
from coterie.server.groups.loading import GroupLoading
from coterie.server.network.responses import DelayedResponse
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.logs.partition import Partition
    from coterie.server.network.connection import Connection

# The leader epoch of a partition that nobody has led before. A log that was led tells its own.
FIRST_EPOCH = 0


class Groups:
    """The group coordinator at work.

    Attributes:
        coordinator: which is asked.
        journal: where what happens is kept.
        happened: facts by their name, counted as the journal has them; `metrics.py` shows these.
        offsets_committed, offsets_deleted: records of offsets that were written, and tombstones.
    """

    def __init__(self, broker: "Broker", coordinator: GroupCoordinator) -> None:
        """Nothing is loaded yet: groups are not coordinated here."""
        self.coordinator = coordinator
        self._broker = broker
        self._events = EventLog(broker.log, unbounded=broker.log.is_enabled_for(logging.DEBUG))
        self.journal = Journal(
            broker.topics,
            broker.config,
            broker.loop,
            broker.now_ms,
            broker.log,
            coordinator.config.offsets_topic_num_partitions,
        )
        self._partitions: list[Partition] = []
        self._appends = GroupAppends(broker, coordinator, self.carry_out, self._fail, self._reload)
        self._loading = GroupLoading(broker, coordinator, self._loaded, self._not_loaded)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.happened: Counter[str] = Counter()
        self.offsets_committed = 0
        self.offsets_deleted = 0

    # --- requests ---------------------------------------------------------------------------------

    def ask(
        self,
        verb: Callable[[int, Any, RequestContext], Effects],
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
        place = DelayedResponse(connection)
        to = place if reply is None else reply.around(place)
        version = connection.route.version
        context = RequestContext(connection.client_id, connection.client_host, version, to)
        effects = verb(connection.now_ms, request, context)
        answer = effects.answer
        if answer is None:
            if parks:
                connection.delay_and_mute(place)
            else:
                connection.delay(place)
        if not effects.quiet:
            self.carry_out(effects)
        return answer

    def carry_out(self, effects: Effects) -> None:
        """Append the records, send the replies, tell the events, set the timer."""
        for append in effects.appends:
            self._appends.queue(append)
            # Operations on offsets are of one kind: a commit, or what deletes and expires.
            key, value = append.records[0]
            if type(key) is OffsetCommitKey:
                if value is None:
                    self.offsets_deleted += len(append.records)
                else:
                    self.offsets_committed += len(append.records)
        for reply in effects.replies:
            reply.to.send(reply.message)  # type: ignore[attr-defined]  # opaque to the coordinator
        if effects.events:
            for event in effects.events:
                self.happened[event.name] += 1
                self._events.tell(event)
            self.journal.tell(effects.events)
        if effects.timers:
            self._set_timer()

    # --- partitions -------------------------------------------------------------------------------

    def take_over(self, partitions: "list[Partition]") -> None:
        """Begin to load these partitions; groups are told to wait until they are loaded."""
        self._partitions = self._appends.partitions = partitions
        for partition in partitions:
            if self.coordinator.begin_load(partition.index, FIRST_EPOCH):
                self._loading.add(partition)

    async def load(self) -> None:
        """Read every partition back; a damaged one is not served, the others are."""
        while self._loading.busy:
            self._loading.slice()
            await asyncio.sleep(0)

    def epoch(self, index: int) -> int:
        """The leader epoch under which a partition is held, or was given up; -1 for none yet."""
        return self.coordinator.shards[index].epoch

    def is_loading(self, index: int) -> bool:
        """Whether a partition is being loaded."""
        return self._loading.is_loading(index)

    def load_partition(self, index: int, epoch: int) -> None:
        """Take a partition over: its log is read, in turns of the loop to come (spec 14.3).

        Args:
            index: which one.
            epoch: the leader epoch; ignored unless it is larger than the one held. A partition that
                is held or loading stays what it is, and writes under the new epoch.
        """
        partition = self._partitions[index]
        if self.coordinator.begin_load(index, epoch):
            self._loading.add(partition)
            self._loading.schedule()
        elif partition.opened_log is not None:
            # What is written from now on carries the epoch that is held, the new one if it is.
            log = partition.opened_log
            log.leader_epoch = max(log.leader_epoch, self.epoch(index))

    def unload_partition(self, index: int, epoch: int | None = None) -> None:
        """Give a partition up (spec 14.3): its load ends, whoever waits is told to look for the
        coordinator elsewhere, and what is not durable by now is not acknowledged.

        Args:
            index: which one.
            epoch: of whoever leads it now; ignored if it is not larger than the one held. None
                gives it up in any case.
        """
        if epoch is not None and epoch <= self.epoch(index):
            return
        self._let_go(index)
        self.carry_out(self.coordinator.unload(index, epoch, self._broker.now_ms()))

    def write(self) -> None:
        """Write what this turn of the event loop has queued."""
        self._appends.write()

    def log_failed(self, log: Log, error: Exception) -> None:
        """A log could not be synced; if it is one of ours, its partition stops."""
        for partition in self._partitions:
            if partition.opened_log is log:
                self._fail(partition.index, error)

    def _let_go(self, index: int) -> None:
        self._loading.forget(index)
        self._appends.end(index)

    def _loaded(self, index: int, effects: Effects) -> None:
        self._appends.begin(index)
        self.carry_out(effects)

    def _not_loaded(self, index: int, _error: Exception) -> None:
        self.carry_out(self.coordinator.fail(index, self._broker.now_ms()))
        self._broker.partition_failed(index)

    def _fail(self, index: int, error: Exception) -> None:
        """Stop a partition: what it has not acknowledged never will be."""
        self._let_go(index)
        self._broker.log.error("group partition failed", partition=index, error=str(error))
        self.carry_out(self.coordinator.fail(index, self._broker.now_ms()))
        self._broker.partition_failed(index)

    def _reload(self, index: int) -> None:
        """Memory and log have parted: whoever waits is told, and the log is read again."""
        self._broker.log.error("group log is not where it was left, loading again", partition=index)
        self._let_go(index)
        self.carry_out(self.coordinator.reload(index, self._broker.now_ms()))
        self._loading.add(self._partitions[index])
        self._loading.schedule()

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
            self._let_go(partition.index)
            effects = self.coordinator.unload(partition.index, None, now_ms)
            for reply in effects.replies:
                reply.to.send(reply.message)  # type: ignore[attr-defined]  # as above
            self.journal.tell(effects.events)
        self.journal.write()
