"""`__consumer_offsets`: created at the first start, and anew when clients have deleted it.

[topics/offsets-topic], [topics/offsets-topic-deletion]
"""

from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.config import Config
from coterie.server.controller import Controller
from coterie.server.groups.runtime import GroupRuntime
from coterie.server.logs.partition import Topic
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import TopicRefused


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
    """The topic of a broker that runs."""

    def __init__(self, controller: Controller, groups: GroupRuntime) -> None:
        """Take the topic that `topic_at_start` has returned."""
        self._controller = controller
        self._topics = controller.topics
        self._changes = controller.changes
        self._groups = groups
        # The coordinator is made for this number, whatever the setting is now.
        self._count = len(groups.coordinator.shards)
        self._is_creating = False

    @property
    def exists(self) -> bool:
        """Whether the topic exists, hidden or not."""
        return self._topics.find(OFFSETS_TOPIC) is not None

    def deletion(self, deleted: Topic, deletion: Change[None]) -> Change[None]:
        """Delete a topic. If it is this one, give up all groups before.

        Raises:
            TopicRefused: the disk fails. If the topic still exists, the groups are loaded again.
        """
        if deleted.name != OFFSETS_TOPIC:
            yield from deletion
            return
        for index in range(self._count):
            self._groups.unload_partition(index)
        try:
            yield from deletion
        except TopicRefused:
            topic = self._topics.find(OFFSETS_TOPIC)
            if topic is not None:
                self._groups.take_over_again(topic.partitions)
            raise

    def create(self) -> None:
        """Begin to create the topic anew, hidden, if it does not exist and that has not begun."""
        if not self.exists and not self._is_creating:
            self._is_creating = True
            self._changes.submit(self._creation(), self._created)

    def _creation(self) -> Change[None]:
        topic = yield from self._controller.creation(OFFSETS_TOPIC, self._count, {})
        self._topics.hide(topic)
        self._groups.take_over_again(topic.partitions)

    def _created(self, _result: None, failure: Exception | None) -> None:
        self._is_creating = False
        # A refusal is logged where it arises, and the next client tries again.
        if failure is not None and not isinstance(failure, TopicRefused):
            raise failure
