"""A topic, as all brokers of a cluster have it."""

from collections.abc import Callable
from typing import TypeVar

from coterie.server.config.topic_config import TopicConfig
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS, OWN_TOPICS

# What a broker has of a topic.
T = TypeVar("T", bound="TopicMetadata")


class TopicMetadata:
    """What all brokers have of a topic; each derives a class with its own part.

    Attributes:
        name, topic_id: its name, and its id of 16 bytes.
        partition_count: how many partitions it has.
        config: its settings.
        is_internal: whether it is one of Kafka's internal topics.
        images: its encoded descriptions, by their format; empty after each change.
        is_own: whether only the broker writes it; its number of partitions is fixed then.
        replicas: the brokers of each partition; empty if there is one broker.
        show: lets clients see the topic; None if they do.
    """

    __slots__ = (
        "config",
        "images",
        "is_internal",
        "is_own",
        "name",
        "partition_count",
        "replicas",
        "show",
        "topic_id",
    )

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        """Make a topic without partitions."""
        self.name = name
        self.topic_id = topic_id
        self.partition_count = 0
        self.config = config
        self.is_internal = name in INTERNAL_TOPICS
        self.is_own = name in OWN_TOPICS
        self.replicas: list[list[int]] = []
        self.show: Callable[[], None] | None = None
        self.images: dict[tuple[int, int, int], bytes] = {}

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {self.partition_count} partitions)"

    def has(self, index: int) -> bool:
        """Return whether a partition of this number exists."""
        return 0 <= index < self.partition_count

    def changed(self) -> None:
        """Forget the encoded descriptions, because the topic has changed."""
        # A new table: a description that is being encoded must not get into it.
        self.images = {}
