"""Deleting topics: with their records, and with all offsets that groups have committed for them.

The coordinators of all brokers of the process take part. When a partition of `__consumer_offsets`
changes hands meanwhile, the offsets are deleted again, because its new owner may have read them
from the log. A partition without an owner that runs is waited for: its next owner reads them there.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coterie.protocol.topic_names import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.controller import Controller
from coterie.server.groups.offsets_topic import OffsetsTopic
from coterie.server.logs.flusher import Flusher
from coterie.server.logs.maintenance import Maintenance
from coterie.server.logs.partition import Topic
from coterie.server.member import Member
from coterie.server.metadata.topic_changes import Change

if TYPE_CHECKING:
    # Most processes have one broker and do not import it.
    from coterie.server.cluster.leadership import Leadership


class _OffsetsDeletion:
    """A deletion of offsets in progress.

    Attributes:
        topics: the deleted topics, by name and id.
        done: called when it is durable everywhere.
        left: how many brokers have not done it.
    """

    __slots__ = ("done", "left", "topics")

    def __init__(self, topics: list[tuple[str, bytes]], done: Callable[[], None]) -> None:
        self.topics = topics
        self.done = done
        self.left = 0


class TopicDeletions:
    """Deletes topics."""

    def __init__(
        self,
        controller: Controller,
        offsets_topic: OffsetsTopic,
        flusher: Flusher,
        maintenance: Maintenance,
        members: Sequence[Member],
        leadership: "Leadership | None",
    ) -> None:
        """Delete nothing yet.

        Args:
            controller: deletes the topics.
            offsets_topic: the topic of the group coordinators.
            flusher: syncs the logs.
            maintenance: works on the logs, and removes the files.
            members: the brokers that run; the list changes.
            leadership: who leads what; None if there is one broker.
        """
        self._controller = controller
        self._leadership = leadership
        self._topics = controller.topics
        self._offsets_topic = offsets_topic
        self._flusher = flusher
        self._maintenance = maintenance
        self._members = members
        self._offsets: list[_OffsetsDeletion] = []

    def deletion(self, topic: Topic, done: Callable[[], None]) -> Change[None]:
        """Delete a topic with its records and with all committed offsets for it.

        Args:
            topic: the topic.
            done: called when no crash can bring any of it back; perhaps at once.

        Raises:
            TopicRefused: the disk fails. The topic still exists if it is in `topics.by_name`.
        """
        for partition in topic.partitions:
            self._maintenance.release(partition)
        deletion = self._controller.deletion(topic)
        try:
            yield from self._offsets_topic.deletion(topic, deletion)
        finally:
            if topic.name not in self._topics.by_name:
                for partition in topic.partitions:
                    if partition.opened_log is not None:
                        self._flusher.forget(partition.opened_log)
                        # A fetch session may keep the partition for long.
                        partition.opened_log = None

                def deleted() -> None:
                    self._deleted([topic.name])
                    done()

                self._delete_offsets([(topic.name, topic.topic_id)], deleted)

    def resume(self) -> None:
        """Go on with the deletions that the last stop has interrupted.

        It is called once, when all brokers are there: each coordinates partitions of its own. The
        deletions of this process go on by themselves: brokers that come back take partitions over.
        """
        assert not self._offsets, "nothing was deleted before all brokers were there"
        interrupted = dict(self._topics.deleting)
        if interrupted:
            topics = list(interrupted.items())
            self._delete_offsets(topics, lambda: self._deleted(list(interrupted)))

    def ownership_changed(self) -> None:
        """Delete the offsets again: other brokers have taken partitions over."""
        again, self._offsets = self._offsets, []
        for each in again:
            self._delete_offsets(each.topics, each.done)

    def _delete_offsets(self, topics: list[tuple[str, bytes]], done: Callable[[], None]) -> None:
        deletion = _OffsetsDeletion(topics, done)
        self._offsets.append(deletion)
        deletion.left = len(self._members)

        def done_by_one() -> None:
            deletion.left -= 1
            leadership = self._leadership
            is_whole = leadership is None or leadership.is_led(OFFSETS_TOPIC)
            if not deletion.left and is_whole and deletion in self._offsets:
                self._offsets.remove(deletion)
                deletion.done()

        for member in list(self._members):
            member.groups.delete_offsets(topics, done_by_one)
            # Not waited for: what is lost of it is done by the next load.
            member.share_state.delete_topics({topic_id for _, topic_id in topics})

    def _deleted(self, names: list[str]) -> None:
        """Remove the files of topics whose deletion is complete."""
        self._topics.deleted(names)
        if TRANSACTIONS_TOPIC in names:
            for member in self._members:
                member.transaction_runtime.topic_deleted()
        if SHARE_GROUPS_TOPIC in names:
            for member in self._members:
                member.share_state.topic_deleted()
        if OFFSETS_TOPIC in names:
            self._offsets_topic.create()
        self._maintenance.remove_deleted()
