"""The partitions of a client, kept in step with the ledger."""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.pods import Pod


class Readings:
    """What a client owns and reads.

    Attributes:
        owned: the partitions that it believes in.
        reading: those of them whose records it hands over.
    """

    def __init__(self, environment: Environment, pod: Pod) -> None:
        self.owned: set[TopicPartition] = set()
        self.reading: set[TopicPartition] = set()
        self._ledger = environment.ledger
        self._identity = pod.identity

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Own partitions."""
        for partition in sorted(partitions):
            self.owned.add(partition)
            self._ledger.take(self._identity, partition)

    def start(self, partition: TopicPartition, offset: int) -> None:
        """Begin to read a partition, if it is still owned and not read."""
        if partition in self.owned and partition not in self.reading:
            self.reading.add(partition)
            self._ledger.start(self._identity, partition, offset)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up."""
        for partition in sorted(partitions):
            self.owned.discard(partition)
            self.reading.discard(partition)
            self._ledger.stop(self._identity, partition)

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets up to which partitions have been read."""
        found = {}
        for partition in sorted(partitions):
            offset = self._ledger.position(self._identity, partition)
            if offset is not None:
                found[partition] = offset
        return found
