"""`__consumer_offsets`: created at the first start, and anew when clients have deleted it.

[topics/offsets-topic], [topics/offsets-topic-deletion]
"""

from collections.abc import Sequence

from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.config import Config
from coterie.server.controller import Controller
from coterie.server.failures import Failures
from coterie.server.logs.partition import Partition, Topic
from coterie.server.member import Member
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.storage.errors import LogFailed, describe_error, remedy_for


def topic_at_start(controller: Controller, config: Config) -> Topic:
    """Return the topic, created and hidden if it does not exist."""
    topics = controller.topics
    if OFFSETS_TOPIC in topics.deleting:
        # A crash came after the deletion had been decided. There is nothing left to delete of it
        # in other topics, so the name is free; the old files are removed later.
        topics.deleted([OFFSETS_TOPIC])
    topic = topics.by_name.get(OFFSETS_TOPIC)
    if topic is None:
        count = config.get_int("offsets.topic.num.partitions")
        topic = controller.create(OFFSETS_TOPIC, count, {})
        topics.hide(topic)
    return topic


class OffsetsTopic:
    """The topic while brokers run.

    Attributes:
        partitions: its partitions, also when it was deleted.
    """

    def __init__(
        self,
        controller: Controller,
        topic: Topic,
        failures: Failures,
        members: Sequence[Member],
    ) -> None:
        """Take the topic that `topic_at_start` has returned.

        Args:
            controller: creates and deletes it.
            topic: the topic.
            failures: takes the failure of its last partition.
            members: the brokers that run, whose groups it holds; the list changes.
        """
        self.partitions: list[Partition] = topic.partitions
        self._controller = controller
        self._topics = controller.topics
        self._changes = controller.changes
        self._failures = failures
        self._members = members
        # The coordinators are made for this number, whatever the setting is now.
        self._count = topic.partition_count
        self._is_creating = False
        self._failed: set[int] = set()

    @property
    def exists(self) -> bool:
        """Whether the topic exists, hidden or not."""
        return self._topics.find(OFFSETS_TOPIC) is not None

    def is_loading(self, index: int) -> bool:
        """Return whether a group coordinator is reading the log of a partition."""
        return any(each.groups.is_loading(index) for each in self._members)

    def partition_failed(self, index: int) -> None:
        """Note that a partition is not served any more; the last one ends the process."""
        self._failed.add(index)
        log = self.partitions[index].opened_log
        reason = "see the lines above"
        if log is not None and log.failed:
            try:
                log.unsynced()
            except LogFailed as error:
                self._failures.log_failed(log, error)
                reason = f"{describe_error(error)}; {remedy_for(error)}"
        if len(self._failed) == len(self.partitions):
            text = "no partition of __consumer_offsets can be written any more"
            self._failures.end(f"{text}: {reason}")

    def deletion(self, deleted: Topic, deletion: Change[None]) -> Change[None]:
        """Delete a topic. If it is this one, give up all groups before.

        Raises:
            TopicRefused: the disk fails. If the topic still exists, the groups are loaded again.
        """
        if deleted.name != OFFSETS_TOPIC:
            yield from deletion
            return
        for member in self._members:
            for index in range(self._count):
                member.groups.unload_partition(index)
        try:
            yield from deletion
        except TopicRefused:
            topic = self._topics.find(OFFSETS_TOPIC)
            if topic is not None:
                self._take_over(topic)
            raise

    def create(self) -> None:
        """Begin to create the topic anew, hidden, if it does not exist and that has not begun."""
        if not self.exists and not self._is_creating:
            self._is_creating = True
            self._changes.submit(self._creation(), self._created)

    def _creation(self) -> Change[None]:
        topic = yield from self._controller.creation(OFFSETS_TOPIC, self._count, {})
        self._topics.hide(topic)
        self._failed.clear()
        self._take_over(topic)

    def _take_over(self, topic: Topic) -> None:
        self.partitions = topic.partitions
        for member in self._members:
            member.groups.take_over_again(topic.partitions)

    def _created(self, _result: None, failure: Exception | None) -> None:
        self._is_creating = False
        # A refusal is logged where it arises, and the next client tries again.
        if failure is not None and not isinstance(failure, TopicRefused):
            raise failure
