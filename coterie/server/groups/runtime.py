"""The runtime of the group coordinator: its events are logged, counted and kept in the journal."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from coterie.coordinator.effects import Effects
from coterie.coordinator.service import GroupCoordinator
from coterie.coordinator.topic_image import TopicChange
from coterie.protocol.messages.log_records import OffsetCommitKey
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.groups.deleted_topics import DeletedTopics
from coterie.server.groups.event_log import EventLog
from coterie.server.groups.journal import Journal


class GroupRuntime(CoordinatorRuntime[Effects[Any]]):
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
        *,
        codec: int,
        failed: Callable[[int], None],
    ) -> None:
        """Run `coordinator`, which owns no partition before `take_over`.

        Args:
            host: the surroundings.
            coordinator: the coordinator.
            journal: where events are kept.
            codec: the codec of the batches that are written [offsets/compression].
            failed: called with a partition that is not served any more.
        """
        super().__init__(host, coordinator, kind="group", codec=codec, failed=failed)
        self.coordinator = coordinator
        self.journal = journal
        self._events = EventLog(host.log)
        self._deleted_topics = DeletedTopics(host, self, coordinator)
        self.event_counts: Counter[str] = Counter()
        self.offsets_committed = 0
        self.offsets_deleted = 0

    def apply(self, effects: Effects[Any]) -> None:
        """Queue the records, send the responses, set the timer, log and keep the events."""
        super().apply(effects)
        for append in effects.appends:
            records = append.records
            # All records of an operation on offsets are of one kind: a commit, or tombstones of a
            # deletion or expiry.
            key, value = records[0]
            if type(key) is OffsetCommitKey:
                if value is None:
                    self.offsets_deleted += len(records)
                else:
                    self.offsets_committed += len(records)
        if effects.events:
            for event in effects.events:
                self.event_counts[event.name] += 1
                self._events.add(event)
            self.journal.add(effects.events)

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

    def load_ended(self, index: int) -> None:
        """Delete the offsets of deleted topics in a partition that was being loaded."""
        self._deleted_topics.loaded(index)

    def stopped(self, effects: Effects[Any]) -> None:
        """Send the last responses and keep the last events."""
        super().stopped(effects)
        self.journal.add(effects.events)

    def stop(self) -> None:
        """Give up all partitions: delayed requests get NOT_COORDINATOR."""
        super().stop()
        self.journal.stop()
