"""Deletion of the committed offsets of deleted topics, until that is durable.

A topic is deleted with all offsets that groups have committed for it, as one operation: the
response is sent, the name may be used again and the files are removed only when no crash can bring
an offset back. Until then the files are there under their new names, and a start that finds them
deletes the offsets again [topics/whole-deletion].

Partitions of `__consumer_offsets` that are being loaded follow when they are loaded. Those that
have failed are not waited for.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.coordinator.effects import Effects
from coterie.coordinator.service import GroupCoordinator
from coterie.coordinator.topic_image import deletion as deletion_of
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime

# Name and id.
Topics = list[tuple[str, bytes]]


class _Deletion:
    """One deletion in progress.

    Attributes:
        changes: the deletions of the topics.
        done: called when no offset of them can come back.
        loading: group partitions in which it follows the load.
        syncing: group partitions whose logs are being synced.
    """

    __slots__ = ("changes", "done", "loading", "syncing")

    def __init__(self, topics: Topics, loading: set[int], done: Callable[[], None]) -> None:
        self.changes = [deletion_of(name, topic_id) for name, topic_id in topics]
        self.done = done
        self.loading = loading
        self.syncing: set[int] = set()


class DeletedTopics:
    """The deleted topics whose offsets are not yet all durably deleted."""

    def __init__(
        self,
        host: Host,
        runtime: CoordinatorRuntime[Effects[Any]],
        coordinator: GroupCoordinator,
    ) -> None:
        """Start without any.

        Args:
            host: its clock and flusher are used.
            runtime: carries out what the coordinator returns.
            coordinator: deletes the offsets.
        """
        self._host = host
        self._runtime = runtime
        self._coordinator = coordinator
        self._deletions: list[_Deletion] = []

    def add(self, topics: Topics, done: Callable[[], None]) -> None:
        """Delete the offsets of topics.

        Args:
            topics: the deleted topics.
            done: called when no offset of the topics can come back; perhaps at once.
        """
        deletion = _Deletion(topics, set(self._runtime.loading_partitions()), done)
        self._deletions.append(deletion)
        self._delete(deletion)

    def loaded(self, index: int) -> None:
        """Continue in a group partition whose load has ended, or which is not served any more."""
        for deletion in list(self._deletions):
            if index in deletion.loading:
                deletion.loading.discard(index)
                self._delete(deletion)

    def _delete(self, deletion: _Deletion) -> None:
        runtime, flusher = self._runtime, self._host.flusher
        runtime.apply(self._coordinator.topics_changed(deletion.changes, self._host.now_ms()))
        runtime.write()
        if flusher.commit:
            # Commits that were written before and are not durable yet are covered as well.
            for index, log in runtime.unsynced_logs():
                if index not in deletion.syncing:
                    deletion.syncing.add(index)
                    flusher.appended(log, partial(self._synced, deletion, index))
        self._end_if_done(deletion)

    def _synced(self, deletion: _Deletion, index: int, _error: Exception | None) -> None:
        # After an error the partition has failed, and the next start deletes the offsets again if
        # the topic's files still exist then.
        deletion.syncing.discard(index)
        self._end_if_done(deletion)

    def _end_if_done(self, deletion: _Deletion) -> None:
        if not deletion.loading and not deletion.syncing and deletion in self._deletions:
            self._deletions.remove(deletion)
            deletion.done()
