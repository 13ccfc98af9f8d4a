"""The topics of a cluster: their names, ids and numbers of partitions, and which names are free.

Invariants: `by_name` and `by_id` contain the same topics. A topic is seen, hidden or being deleted,
and only one of them.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Generic

from coterie.protocol.errors import ErrorCode
from coterie.server.metadata.topic import T
from coterie.server.metadata.topic_rules import (
    TopicRefused,
    check_not_prohibited,
    collision_key,
    invalid_name,
)
from coterie.server.metadata.topics_image import PublishedTopics

# The most partitions of a broker [topics/partition-limits]. Each is a directory and about 1 KiB of
# memory, and any client may create them.
MAX_PARTITIONS = 20_000


class Topics(Generic[T]):
    """All topics.

    Attributes:
        by_name, by_id: the topics that clients see.
        published: the image of these topics for coordinators and handlers.
        hidden: topics that exist, and that clients do not see before they are used, by name.
        deleting: the ids of topics whose deletion is not complete, by name. The names cannot be
            used yet.
        being_created: the names of topics that Metadata requests create.
    """

    def __init__(self) -> None:
        """Start without topics."""
        self.by_name: dict[str, T] = {}
        self.by_id: dict[bytes, T] = {}
        self.published = PublishedTopics()
        self.hidden: dict[str, T] = {}
        self.deleting: dict[str, bytes] = {}
        self.being_created: set[str] = set()
        self._by_collision: dict[str, str] = {}

    def find(self, name: str) -> T | None:
        """Return a topic, hidden or not; None if it does not exist."""
        return self.by_name.get(name) or self.hidden.get(name)

    def has_partition(self, name: str, index: int) -> bool:
        """Return whether clients see a partition."""
        topic = self.by_name.get(name)
        return topic is not None and 0 <= index < topic.partition_count

    def all(self) -> Iterator[T]:
        """Return all topics, hidden or not."""
        return chain(self.by_name.values(), self.hidden.values())

    # --- what is possible -------------------------------------------------------------------------

    def check_name(self, name: str) -> None:
        """Check whether a topic of this name can be created.

        Raises:
            TopicRefused: the name is prohibited or not legal, exists, or collides with an existing
                one.
        """
        check_not_prohibited(name)
        invalid = invalid_name(name)
        if invalid is not None:
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
        if name in self.by_name:
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name in self.deleting:
            text = f"Topic '{name}' is marked for deletion."
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, text)
        other = self._by_collision.get(collision_key(name), name)
        if other != name:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def check_hidden(self, name: str, partitions: int) -> None:
        """Check whether a topic that may be hidden can be created with a number of partitions.

        Raises:
            TopicRefused: it is hidden and has another number [topics/offsets-topic].
        """
        topic = self.hidden.get(name)
        if topic is not None and partitions != topic.partition_count:
            text = f"The number of partitions of {name} is fixed at {topic.partition_count}."
            raise TopicRefused(ErrorCode.INVALID_PARTITIONS, text)

    def check_room(self, partitions: int) -> None:
        """Check whether there is room for more partitions [topics/partition-limits].

        Raises:
            TopicRefused: there would be too many.
        """
        existing = sum(each.partition_count for each in self.all())
        if existing + partitions > MAX_PARTITIONS:
            text = f"{existing} partitions exist; this broker holds at most {MAX_PARTITIONS}."
            raise TopicRefused(ErrorCode.POLICY_VIOLATION, text)

    # --- changes ----------------------------------------------------------------------------------

    def add(self, topic: T) -> None:
        """Let clients see a new topic."""
        assert topic.name not in self.by_name, "names are unique"
        self._put(topic)
        self._by_collision[collision_key(topic.name)] = topic.name

    def grown(self, topic: T) -> None:
        """Note that a topic has more partitions."""
        topic.changed()
        if self.by_name.get(topic.name) is topic:
            self._put(topic)

    def hide(self, topic: T) -> None:
        """Let clients not see a topic before it is used [topics/offsets-topic]."""
        assert topic.show is None, "a topic is hidden once"
        self._take_away(topic)
        self.hidden[topic.name] = topic
        topic.show = partial(self.show, topic.name)

    def show(self, name: str) -> None:
        """Let clients see a topic, if it is hidden."""
        topic = self.hidden.pop(name, None)
        if topic is not None:
            assert topic.show is not None, "a hidden topic has a function that shows it"
            topic.show = None
            self._put(topic)

    def begin_deletion(self, topic: T) -> None:
        """Let clients not see a topic any more; its name cannot be used before `deleted`."""
        assert topic.name not in self.deleting, "one deletion of a name at a time"
        self._take_away(topic)
        self.deleting[topic.name] = topic.topic_id

    def keep(self, topic: T) -> None:
        """Let clients see a topic again whose deletion has failed."""
        del self.deleting[topic.name]
        self._put(topic)

    def removed(self, topic: T) -> None:
        """Note that no file of a topic is left that could collide with one of another name."""
        del self._by_collision[collision_key(topic.name)]

    def deleted(self, names: Iterable[str]) -> None:
        """Note that the deletion of topics is complete, so their names may be used again."""
        for name in names:
            assert name in self.deleting, "a deletion is completed once"
            assert name not in self.by_name, "a topic that is being deleted does not exist"
            del self.deleting[name]

    def _put(self, topic: T) -> None:
        assert topic.name not in self.hidden, "a topic is hidden or seen, not both"
        self.by_name[topic.name] = self.by_id[topic.topic_id] = topic
        self.published.put(topic.name, topic.topic_id, topic.partition_count)

    def _take_away(self, topic: T) -> None:
        assert self.by_name.get(topic.name) is topic, "a topic is taken away once"
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        self.published.remove(topic.name)
