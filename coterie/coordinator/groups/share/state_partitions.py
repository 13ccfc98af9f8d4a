"""Which partitions of a share group have delivery state: record 15 as a value.

A partition is `initializing` while the share coordinator is asked for its state, and `initialized`
from then on; only then it is assigned. A topic is `deleting` while its state is removed
[share-groups/initialization].
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.messages.share_group_records import (
    ShareGroupStatePartitionMetadataValue,
    ShareStateTopic,
    ShareStateTopicPartitions,
)


class Topic(NamedTuple):
    """Partitions of one topic.

    Attributes:
        name: its name when it was noted.
        partitions: their numbers.
    """

    name: str
    partitions: frozenset[int]


V = TypeVar("V")
# By topic id.
Topics = Mapping[bytes, Topic]


class StatePartitions(NamedTuple):
    """What record 15 of a group says.

    Attributes:
        initializing, initialized: partitions by topic id.
        deleting: names by topic id.
    """

    initializing: Topics
    initialized: Topics
    deleting: Mapping[bytes, str]

    @classmethod
    def of(cls, value: ShareGroupStatePartitionMetadataValue | None) -> "StatePartitions":
        """Return what a record says; nothing without one."""
        if value is None:
            return NOTHING
        return cls(
            _read(value.initializing_topics),
            _read(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )

    def value(self) -> ShareGroupStatePartitionMetadataValue:
        """Return the record."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_written(self.initializing),
            initialized_topics=_written(self.initialized),
            deleting_topics=[
                ShareStateTopic(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(self.deleting.items())
            ],
        )

    def knows(self, topic_ids: Iterable[bytes]) -> bool:
        """Return whether the record names one of some topics."""
        return any(
            each in self.initializing or each in self.initialized or each in self.deleting
            for each in topic_ids
        )

    def begun(self, topics: Topics) -> "StatePartitions":
        """Return it with further partitions that are being initialized."""
        return self._replace(initializing=_joined(self.initializing, topics))

    def done(self, topics: Topics) -> "StatePartitions":
        """Return it with partitions whose state exists now."""
        return self._replace(
            initializing=_without(self.initializing, topics),
            initialized=_joined(self.initialized, topics),
        )

    def failed(self, topics: Topics) -> "StatePartitions":
        """Return it without partitions whose state could not be created."""
        return self._replace(initializing=_without(self.initializing, topics))

    def without_topics(self, topic_ids: Collection[bytes]) -> "StatePartitions":
        """Return it without topics that were deleted."""
        return StatePartitions(
            _dropped(self.initializing, topic_ids),
            _dropped(self.initialized, topic_ids),
            _dropped(self.deleting, topic_ids),
        )

    def deleting_begun(self, topic_ids: Collection[bytes]) -> "StatePartitions":
        """Return it with topics that are being deleted, with all their partitions."""
        named = {
            topic_id: topic.name
            for topics in (self.initializing, self.initialized)
            for topic_id, topic in topics.items()
            if topic_id in topic_ids
        }
        return StatePartitions(
            _dropped(self.initializing, topic_ids),
            _dropped(self.initialized, topic_ids),
            {**named, **self.deleting},
        )

    def all_deleting(self) -> "StatePartitions":
        """Return it with everything that there is being deleted."""
        return self.deleting_begun({*self.initializing, *self.initialized})

    def deleted(self, topic_ids: Collection[bytes]) -> "StatePartitions":
        """Return it without topics whose state was deleted, unless that was begun anew."""
        return self._replace(deleting=_dropped(self.deleting, topic_ids))

    def with_state(self, topics: TopicsImage) -> dict[bytes, list[int]]:
        """Return all partitions that may have state, by topic id.

        Those of a topic that is being deleted already are all that the topic has.
        """
        found: dict[bytes, set[int]] = {}
        for each in (self.initializing, self.initialized):
            for topic_id, topic in each.items():
                found.setdefault(topic_id, set()).update(topic.partitions)
        for topic_id in self.deleting:
            known = topics.by_id.get(topic_id)
            if known is not None:
                found.setdefault(topic_id, set()).update(range(known.partitions))
        return {topic_id: sorted(indexes) for topic_id, indexes in sorted(found.items())}


NOTHING = StatePartitions({}, {}, {})


def _read(topics: list[ShareStateTopicPartitions]) -> Topics:
    return {each.topic_id: Topic(each.topic_name, frozenset(each.partitions)) for each in topics}


def _written(topics: Topics) -> list[ShareStateTopicPartitions]:
    return [
        ShareStateTopicPartitions(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]


def _joined(topics: Topics, more: Topics) -> Topics:
    joined = dict(topics)
    for topic_id, topic in more.items():
        before = joined.get(topic_id)
        kept = frozenset[int]() if before is None else before.partitions
        joined[topic_id] = Topic(topic.name, kept | topic.partitions)
    return joined


def _without(topics: Topics, less: Topics) -> Topics:
    left = {}
    for topic_id, topic in topics.items():
        gone = less.get(topic_id)
        partitions = topic.partitions if gone is None else topic.partitions - gone.partitions
        if partitions:
            left[topic_id] = Topic(topic.name, partitions)
    return left


def _dropped(table: Mapping[bytes, V], keys: Collection[bytes]) -> dict[bytes, V]:
    return {key: value for key, value in table.items() if key not in keys}
