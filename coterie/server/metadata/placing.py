"""Where the partitions of topics are placed when topics are created, extended and deleted.

Placements are a part of the metadata, which all brokers share. This is the seam: a single broker
places nothing, and `Leadership` places partitions on several.
"""

from collections.abc import Sequence

from coterie.server.metadata.topic import TopicMetadata

# What a client asks for: a replication factor, -1 for the default of the broker, or the brokers of
# each partition.
Replicas = int | Sequence[Sequence[int]]
DEFAULT_FACTOR = -1


class Placing:
    """Places nothing: one broker has everything."""

    def new_replicas(
        self,
        topic: str,  # noqa: ARG002 - for subclasses
        partitions: int,  # noqa: ARG002
        wanted: Replicas,  # noqa: ARG002
    ) -> list[list[int]]:
        """Return the brokers of new partitions; none if there is one broker.

        Args:
            topic: the name of the topic.
            partitions: the number of new partitions.
            wanted: what the client asks for.

        Raises:
            TopicRefused: the partitions cannot be placed so.
        """
        return []

    def overrides(self, topic: str) -> dict[str, str]:  # noqa: ARG002 - for subclasses
        """Return the settings that a new topic of this name gets for its place."""
        return {}

    def added(self, topic: TopicMetadata) -> None:
        """Let brokers lead the new partitions of a topic, which has its replicas."""

    def configured(self, topic: TopicMetadata) -> None:
        """Note that a topic has other settings now."""

    def removed(self, topic: TopicMetadata) -> None:
        """Forget the partitions of a topic that was deleted."""
