"""Partitions of OffsetCommit and OffsetDelete requests that do not exist.

The handlers look them up in the image of the topics, take them out of a request and merge their
errors into the coordinator's response, where they come first in their topic, as in Kafka
[offsets/commit-errors].
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from coterie.protocol.errors import ErrorCode

# The class of a topic in the response.
T = TypeVar("T", bound=Any)


class MissingPartitions(Generic[T]):
    """The missing partitions of one request."""

    def __init__(
        self,
        topic: type[T],
        partition: type[Any],
    ) -> None:
        """Start without any.

        Args:
            topic, partition: their classes in the response.
        """
        self._topic_class = topic
        self._partition_class = partition
        self._topics: dict[tuple[str, bytes], T] = {}

    def take_out(
        self, asked: Any, partition_count: int, error: ErrorCode, topic_id: bytes = b""
    ) -> None:
        """Take the partitions that do not exist out of `asked`, a topic of the request.

        Args:
            asked: the topic.
            partition_count: how many partitions it has; 0 if it does not exist.
            error: the error of the partitions that are taken out.
            topic_id: where topics of the response have ids.
        """
        existing: list[Any] = []
        missing: list[Any] = []
        for each in asked.partitions:
            exists = 0 <= each.partition_index < partition_count
            (existing if exists else missing).append(each)
        # As in Kafka, an unknown topic is in the response even if the request names no partition.
        if missing or not partition_count:
            asked.partitions = existing
            self._topic(asked.name, topic_id).partitions += [
                self._partition_class.of(each.partition_index, error) for each in missing
            ]

    def merged(self, answered: Iterable[T]) -> list[T]:
        """Return the topics of the response: the missing partitions, then those of `answered`."""
        for topic in answered:
            topic_id: bytes = getattr(topic, "topic_id", b"")
            self._topic(topic.name, topic_id).partitions += topic.partitions
        return list(self._topics.values())

    def _topic(self, name: str, topic_id: bytes) -> T:
        topic = self._topics.get((name, topic_id))
        if topic is None:
            ids = {"topic_id": topic_id} if topic_id else {}
            topic = self._topic_class(name=name, partitions=[], **ids)
            self._topics[name, topic_id] = topic
        return cast("T", topic)
