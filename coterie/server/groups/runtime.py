"""The runtime of the group coordinator: its events are logged, counted and kept in the journal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.groups.share.state_request import StateRequest
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard_state import ACTIVE
from coterie.coordinator.topic_image import TopicChange
from coterie.protocol.control_records import Marker, TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitKey
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.groups.deleted_topics import DeletedTopics
from coterie.server.groups.event_log import EventLog
from coterie.server.groups.journal import Journal
from coterie.server.groups.persister import NoPersister, Persister
from coterie.server.logs.partition import Partition
from coterie.server.slices import Slices
from coterie.server.transactions.markers import RAISES_EPOCH


class _MarkerResponse:
    """Stands in the place of a delayed response: a marker is answered by a call."""

    __slots__ = ("send",)

    def __init__(self, done: Callable[[ErrorCode], None]) -> None:
        self.send = done


class GroupRuntime(CoordinatorRuntime):
    """Runs the group coordinator on the event loop.

    Attributes:
        coordinator: the coordinator.
        journal: where events are kept.
        event_counts: events by their name, for the metrics.
        offsets_committed, offsets_deleted: how many records and tombstones of offsets were queued.
    """

    def __init__(
        self,
        host: Host,
        coordinator: GroupCoordinator,
        journal: Journal,
        slices: Slices,
        *,
        codec: int,
        failed: Callable[[int], None],
        persister: Persister | None = None,
    ) -> None:
        """Run `coordinator`, which owns no partition before `take_over`.

        Args:
            host: the surroundings.
            coordinator: the coordinator.
            journal: where events are kept.
            slices: does work that takes long.
            codec: the codec of the batches that are written [offsets/compression].
            failed: called with a partition that is not served any more.
            persister: keeps the delivery state of share groups; None to keep none.
        """
        super().__init__(host, coordinator, kind="group", codec=codec, failed=failed)
        self.coordinator = coordinator
        self.journal = journal
        journal.join()
        self._events = EventLog(host.log)
        self._deleted_topics = DeletedTopics(host, slices, self, coordinator)
        self._persister: Persister = NoPersister(host.loop) if persister is None else persister
        # Not a `Counter`: one event in it takes three times as long.
        self.event_counts: dict[str, int] = {}
        self.offsets_committed = 0
        self.offsets_deleted = 0

    def apply(self, effects: Effects[Any]) -> None:
        """Queue the records, send the responses, set the timer, log and keep the events."""
        # Not by `super`, which takes as long as a small part of the rest.
        CoordinatorRuntime.apply(self, effects)
        appends = effects.appends
        if isinstance(appends, list):
            self._count(appends)
        if effects.events:
            self.keep(effects.events)
        if effects.requests:
            for request in effects.requests:
                self._persister.ask(request.message, partial(self._state_answered, request))

    def _count(self, appends: list[Append]) -> None:
        """Count the offsets that are committed and deleted."""
        for append in appends:
            records = append.records
            if not records:
                # The marker of a transaction, whose offsets were counted when they were queued.
                continue
            # All records of an operation on offsets are of one kind: a commit, or tombstones of a
            # deletion or expiry.
            key, value = records[0]
            if type(key) is OffsetCommitKey:
                if value is None:
                    self.offsets_deleted += len(records)
                else:
                    self.offsets_committed += len(records)

    def keep(self, events: Sequence[Event]) -> None:
        """Count events, log them, and keep them in the journal."""
        counts = self.event_counts
        for event in events:
            counts[event.name] = counts.get(event.name, 0) + 1
        self._events.add(events)
        self.journal.add(events, self._host.node_id)

    def _state_answered(self, request: StateRequest, answer: Any) -> None:
        """Pass on what the share coordinators have answered."""
        self.apply(self.coordinator.state_answered(request, answer, self._host.now_ms()))

    def txn_offset_commit(
        self, now_ms: int, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> Effects[TxnOffsetCommitResponse]:
        """Let the coordinator handle a TxnOffsetCommit whose transaction was checked."""
        coordinator = self.coordinator
        index = coordinator.partition_for(request.group_id)
        epoch = self._logged_epoch(index, request.producer_id)
        return coordinator.txn_offset_commit(now_ms, request, context, epoch)

    def _logged_epoch(self, index: int, producer_id: int) -> int:
        """Return the epoch of a producer in the log of a partition; -1 if it has none there."""
        if self.coordinator.shards[index].state is not ACTIVE:
            return -1
        entry = self._partitions[index].log.producers.get(producer_id)
        return -1 if entry is None else entry.epoch

    def write_marker(
        self, index: int, markers: TransactionMarkers, done: Callable[[ErrorCode], None]
    ) -> None:
        """Write the marker of a transaction into a partition of `__consumer_offsets`.

        Args:
            index: the partition.
            markers: the marker.
            done: called with NONE when the marker is durable, or else with the reason why it was
                not written; perhaps at once.
        """
        if not 0 <= index < len(self._partitions):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        error = self._marker_error(index, markers)
        if error:
            done(error)
            return
        end = TransactionEnd(
            markers.producer_id,
            markers.producer_epoch,
            Marker(markers.commit, markers.coordinator_epoch),
        )
        effects = self.coordinator.end_transaction(
            index, end, _MarkerResponse(done), self._host.now_ms()
        )
        if effects.response is not None:
            done(effects.response)
        self.apply(effects)

    def _marker_error(self, index: int, markers: TransactionMarkers) -> ErrorCode:
        """Return why a marker cannot be written, as for any other partition, or NONE."""
        shard = self.coordinator.shards[index]
        if shard.state is not ACTIVE:
            # The coordinator refuses it.
            return ErrorCode.NONE
        if markers.producer_epoch < shard.producer_epoch(markers.producer_id):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self._partitions[index].log.producers.check_marker(
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            raises_epoch=markers.transaction_version >= RAISES_EPOCH,
        )

    def delete_offsets(self, topics: list[tuple[str, bytes]], done: Callable[[], None]) -> None:
        """Delete all committed offsets of deleted topics; `done` is called when that is durable.

        Args:
            topics: name and id of each.
            done: called now or later.
        """
        self._deleted_topics.add(topics, done)

    def topic_changed(self, change: TopicChange) -> None:
        """Pass the notice that a topic was created or has grown to the coordinator."""
        now_ms = self._host.now_ms()
        self.apply(self.coordinator.topics_changed([change], now_ms))

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of `__consumer_offsets`, also when it was deleted."""
        return self._partitions

    def take_over_again(self, partitions: list[Partition]) -> None:
        """Load partitions in the place of those that were given up, in a new epoch."""
        self._partitions = self._appends.partitions = partitions
        for partition in partitions:
            if self._host.leads(partition):
                epoch = max(self.epoch(partition.index) + 1, partition.leader_epoch)
                self.load_partition(partition.index, epoch)

    def load_ended(self, index: int) -> None:
        """Delete the offsets of deleted topics in a partition that was being loaded."""
        self._deleted_topics.loaded(index)

    def stopped(self, effects: Effects[Any]) -> None:
        """Send the last responses and keep the last events."""
        super().stopped(effects)
        self.journal.add(effects.events, self._host.node_id)

    def stop(self) -> None:
        """Give up all partitions: delayed requests get NOT_COORDINATOR."""
        self._deleted_topics.stop()
        super().stop()
        self.journal.leave()
