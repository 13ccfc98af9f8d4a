"""Deletion of the committed offsets of deleted topics, until that is durable.

A topic is deleted with all offsets that groups have committed for it: the response is sent, the
name may be used again and the files are removed only when no crash can bring an offset back. Until
then the files are there under their new names, and a start that finds them deletes the offsets
again [topics/whole-deletion].

Partitions of `__consumer_offsets` that are being loaded follow when they are loaded. Those that
have failed are not waited for.

The groups with such offsets may be many, so their offsets are deleted in slices. Until the end
clients may see offsets of some groups and not of others, as they may in Kafka, where each partition
of `__consumer_offsets` follows in its own time.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.topic_image import TopicImage
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.slices import Slices

# Name and id.
Topics = list[tuple[str, bytes]]


class _Deletion:
    """One deletion in progress.

    Attributes:
        topics: the deleted topics.
        done: called when no offset of them can come back.
        loading: group partitions in which it follows the load.
        sweeps: how many sweeps over group partitions have not ended.
        syncing: group partitions whose logs are being synced.
    """

    __slots__ = ("done", "loading", "sweeps", "syncing", "topics")

    def __init__(self, topics: Topics, done: Callable[[], None]) -> None:
        self.topics = [TopicImage(name, topic_id, 0) for name, topic_id in topics]
        self.done = done
        self.loading: set[int] = set()
        self.sweeps = 0
        self.syncing: set[int] = set()


class DeletedTopics:
    """The deleted topics whose offsets are not yet all durably deleted."""

    def __init__(
        self,
        host: Host,
        slices: Slices,
        runtime: CoordinatorRuntime,
        coordinator: GroupCoordinator,
    ) -> None:
        """Start without any.

        Args:
            host: its clock and flusher are used.
            slices: does work that takes long.
            runtime: carries out what the coordinator returns.
            coordinator: deletes the offsets.
        """
        self._host = host
        self._slices = slices
        self._runtime = runtime
        self._coordinator = coordinator
        self._deletions: list[_Deletion] = []

    def add(self, topics: Topics, done: Callable[[], None]) -> None:
        """Delete the offsets of topics.

        Args:
            topics: the deleted topics.
            done: called when no offset of the topics can come back; perhaps at once.
        """
        deletion = _Deletion(topics, done)
        self._deletions.append(deletion)
        self._begin_sweep(deletion, range(len(self._coordinator.shards)))

    def loaded(self, index: int) -> None:
        """Continue in a group partition whose load has ended, or which is not served any more."""
        for deletion in list(self._deletions):
            if index in deletion.loading:
                deletion.loading.discard(index)
                self._begin_sweep(deletion, [index])

    def stop(self) -> None:
        """Leave the deletions that are not complete to the next start."""
        self._deletions.clear()

    def _begin_sweep(self, deletion: _Deletion, indexes: Iterable[int]) -> None:
        deletion.sweeps += 1
        self._slices.begin(self._sweep(deletion, indexes), partial(self._swept, deletion))

    def _sweep(self, deletion: _Deletion, indexes: Iterable[int]) -> Iterator[None]:
        now_ms = self._host.now_ms()
        for index in indexes:
            for effects in self._coordinator.delete_topic_offsets(index, deletion.topics, now_ms):
                self._runtime.apply(effects)
                yield
                if deletion not in self._deletions:
                    return
            if self._runtime.is_loading(index):
                deletion.loading.add(index)
            yield

    def _swept(self, deletion: _Deletion) -> None:
        deletion.sweeps -= 1
        if deletion not in self._deletions:
            return
        runtime, flusher = self._runtime, self._host.flusher
        runtime.write()
        # A partition whose write has failed is loaded again.
        deletion.loading.update(runtime.loading_partitions())
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
        waits = deletion.loading or deletion.sweeps or deletion.syncing
        if not waits and deletion in self._deletions:
            self._deletions.remove(deletion)
            deletion.done()
