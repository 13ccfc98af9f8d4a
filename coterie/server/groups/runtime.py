"""The runtime of the group coordinator: requests in, effects applied, partitions loaded and failed.

The coordinator is pure: it returns what is to be done as `Effects`. This module is the only place
that applies them: records are appended (appends.py), responses sent, events logged and kept
(event_log.py, journal.py), the timer set. Partitions of `__consumer_offsets` are taken over, given
up and stopped here; loading.py reads them.

Invariant: a partition is written to only between the end of its load and the moment it is given up
or fails. After the first failed write or sync it is not written to until the next start.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.coordinator.effects import Effects, RequestContext
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitKey
from coterie.protocol.wire import Message
from coterie.server.groups.appends import GroupAppends
from coterie.server.groups.deleted_topics import DeletedTopics
from coterie.server.groups.event_log import EventLog
from coterie.server.groups.journal import Journal
from coterie.server.groups.loading import GroupLoading
from coterie.server.network.delayed_response import CompletedResponse, DelayedResponse, Exchange
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.logs.partition import Partition

# The leader epoch of a partition that no broker has led before. A log that was led before has the
# epoch in its batches.
FIRST_EPOCH = 0


class CoordinatorRuntime:
    """Runs the group coordinator on the event loop.

    Attributes:
        coordinator: the coordinator.
        journal: where events are kept.
        event_counts: events by their name, for the metrics.
        offsets_committed, offsets_deleted: how many records and tombstones of offsets were queued.
    """

    def __init__(self, broker: "Broker", coordinator: GroupCoordinator) -> None:
        """Run `coordinator`, which owns no partition before `take_over`."""
        self.coordinator = coordinator
        self._broker = broker
        self._events = EventLog(broker.log, unlimited=broker.log.is_enabled_for(logging.DEBUG))
        self.journal = Journal(
            broker.topics,
            broker.config,
            broker.loop,
            broker.now_ms,
            broker.log,
            coordinator.config.offsets_topic_num_partitions,
        )
        self._partitions: list[Partition] = []
        self._appends = GroupAppends(broker, coordinator, self.apply, self._fail, self._reload)
        self._loading = GroupLoading(broker, coordinator, self._loaded, self._not_loaded)
        self._deleted_topics = DeletedTopics(broker, coordinator, self._appends, self.apply)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.event_counts: Counter[str] = Counter()
        self.offsets_committed = 0
        self.offsets_deleted = 0

    # --- requests ---------------------------------------------------------------------------------

    def submit(
        self,
        verb: Callable[[int, Any, RequestContext], Effects],
        request: Any,
        connection: Exchange,
        *,
        mutes_connection: bool = False,
        complete: Callable[[Any], Message] | None = None,
    ) -> Message | None:
        """Submit a request to the coordinator.

        Args:
            verb: a method of the coordinator.
            request: its argument, decoded.
            connection: the connection of the request.
            mutes_connection: a delayed response mutes the connection until it is sent.
            complete: adds to the response what the coordinator does not know.

        Returns:
            The response, or None if it is delayed.
        """
        # Made before it is known whether the response is delayed: the coordinator keeps it as the
        # address of the response.
        delayed = (
            DelayedResponse(connection)
            if complete is None
            else CompletedResponse(connection, complete)
        )
        version = connection.route.version
        client = connection.client
        context = RequestContext(client.client_id, client.client_host, version, delayed)
        effects = verb(connection.now_ms, request, context)
        response: Message | None = effects.response
        if response is None:
            # Queued before the effects are applied: they may send this very response.
            if mutes_connection:
                connection.delay_and_mute(delayed)
            else:
                connection.delay(delayed)
        elif complete is not None:
            response = complete(response)
        if not effects.quiet:
            self.apply(effects)
        return response

    def apply(self, effects: Effects) -> None:
        """Queue the records, send the responses, log and keep the events, set the timer."""
        for append in effects.appends:
            self._appends.queue(append)
            # All records of an operation on offsets are of one kind: a commit, or tombstones of a
            # deletion or expiry.
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
                self.event_counts[event.name] += 1
                self._events.add(event)
            self.journal.add(effects.events)
        if effects.timers:
            self._set_timer()

    # --- partitions -------------------------------------------------------------------------------

    def take_over(self, partitions: "list[Partition]") -> None:
        """Begin to load these partitions; until then requests get COORDINATOR_LOAD_IN_PROGRESS."""
        self._partitions = self._appends.partitions = partitions
        for partition in partitions:
            if self.coordinator.begin_load(partition.index, FIRST_EPOCH):
                self._loading.add(partition)

    async def load(self) -> None:
        """Load every partition that was added; a damaged one is not served, the others are."""
        await self._loading.finish()

    def epoch(self, index: int) -> int:
        """Return the leader epoch in which a partition is or was owned; -1 for none yet."""
        return self.coordinator.shards[index].epoch

    def is_loading(self, index: int) -> bool:
        """Return whether a partition is being loaded."""
        return self._loading.is_loading(index)

    def load_partition(self, index: int, epoch: int) -> None:
        """Take a partition over and load it in later turns of the loop [coordinator/epochs].

        Args:
            index: the partition.
            epoch: the new leader epoch; ignored unless it is larger than the current one. A
                partition that is owned or loading stays so, and is written to in the new epoch.
        """
        partition = self._partitions[index]
        if self.coordinator.begin_load(index, epoch):
            self._loading.add(partition)
            self._loading.schedule()
        elif partition.opened_log is not None:
            partition.lead(max(partition.leader_epoch, self.epoch(index)))

    def unload_partition(self, index: int, epoch: int | None = None) -> None:
        """Give a partition up [coordinator/unload].

        A load of it ends. Delayed requests get NOT_COORDINATOR, and what is not durable yet is
        never acknowledged.

        Args:
            index: the partition.
            epoch: the epoch of the new leader; ignored unless it is larger than the current one.
                With None the partition is given up in any case.
        """
        if epoch is not None and epoch <= self.epoch(index):
            return
        self._disown(index)
        self.apply(self.coordinator.unload(index, epoch, self._broker.now_ms()))

    def delete_offsets(self, topics: list[tuple[str, bytes]], done: Callable[[], None]) -> None:
        """Delete all committed offsets of deleted topics; `done` is called when that is durable.

        Args:
            topics: name and id of each.
            done: called now or later.
        """
        loading = [each.index for each in self._partitions if self.is_loading(each.index)]
        self._deleted_topics.add(topics, loading, done)

    def write(self) -> None:
        """Write the queued records now instead of at the end of this turn of the loop."""
        self._appends.write()

    def log_failed(self, log: Log, error: Exception) -> None:
        """Stop the partition of a log that could not be synced, if it is one of ours."""
        for partition in self._partitions:
            if partition.opened_log is log:
                self._fail(partition.index, error)

    def _disown(self, index: int) -> None:
        self._loading.forget(index)
        self._appends.end(index)
        self._deleted_topics.loaded(index)

    def _loaded(self, index: int, effects: Effects) -> None:
        self._appends.begin(index)
        self.apply(effects)
        self._deleted_topics.loaded(index)

    def _not_loaded(self, index: int, _error: Exception) -> None:
        self.apply(self.coordinator.fail(index, self._broker.now_ms()))
        self._deleted_topics.loaded(index)
        self._broker.partition_failed(index)

    def _fail(self, index: int, error: Exception) -> None:
        """Stop a partition; what it has not acknowledged is never acknowledged."""
        self._disown(index)
        self._broker.log.error("group partition failed", partition=index, error=str(error))
        self.apply(self.coordinator.fail(index, self._broker.now_ms()))
        self._broker.partition_failed(index)

    def _reload(self, index: int) -> None:
        """Load a partition again whose log does not end where memory expects it.

        Requests that wait for it get an error.
        """
        self._broker.log.error("group log changed unexpectedly, loading it again", partition=index)
        self._disown(index)
        self.apply(
            self.coordinator.append_failed(index, ErrorCode.NOT_COORDINATOR, self._broker.now_ms())
        )
        self._loading.add(self._partitions[index])
        self._loading.schedule()

    # --- time -------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer to the coordinator's next deadline, unless it fires earlier already."""
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
        self.apply(self.coordinator.advance(self._broker.now_ms()))
        self._set_timer()

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Give up all partitions: delayed requests get NOT_COORDINATOR."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._broker.now_ms()
        for partition in self._partitions:
            self._disown(partition.index)
            effects = self.coordinator.unload(partition.index, None, now_ms)
            for reply in effects.replies:
                reply.to.send(reply.message)  # type: ignore[attr-defined]  # as above
            self.journal.add(effects.events)
        self.journal.stop()
