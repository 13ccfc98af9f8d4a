"""The topics of a run and the records that arrive in them.

Records arrive evenly; each partition begins at a moment of its own. A reader that is behind catches
up at a multiple of that rate. The position of a reader is therefore a formula, and no record is an
event of its own.
"""

from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.lab.kernel import SECOND, stream


class Workload:
    """Partitions and their records.

    Attributes:
        counts: the number of partitions of each topic.
        partitions: all partitions, in order.
        rate: records a second in each partition.
        catch_up: how many times faster a reader reads that is behind.
    """

    def __init__(self, seed: int, topics: int, partitions: int, rate: int, catch_up: int) -> None:
        random = stream(seed, "arrivals")
        each, extra = divmod(partitions, topics)
        names = ["t"] if topics == 1 else [f"t{number}" for number in range(topics)]
        self.counts = {name: each + (index < extra) for index, name in enumerate(names)}
        self.partitions = [
            TopicPartition(name, number)
            for name, count in self.counts.items()
            for number in range(count)
        ]
        self.rate = rate
        self.catch_up = catch_up
        self._random = random
        self._phase_us = {each: random.randrange(SECOND // rate) for each in self.partitions}

    def grow(self, to: int, at_us: int) -> list[TopicPartition]:
        """Add partitions, evenly to all topics, up to a number; return them."""
        added = []
        while len(self.partitions) < to:
            topic = min(self.counts, key=lambda name: self.counts[name])
            partition = TopicPartition(topic, self.counts[topic])
            self.counts[topic] += 1
            self.partitions.append(partition)
            self._phase_us[partition] = at_us + self._random.randrange(SECOND // self.rate)
            added.append(partition)
        return added

    def produced(self, partition: TopicPartition, at_us: int) -> int:
        """Return the number of records that have arrived in a partition."""
        return max(0, (at_us - self._phase_us[partition]) * self.rate // SECOND + 1)


class Progress(NamedTuple):
    """Where a reader began, which gives its position at any later time."""

    offset: int
    since_us: int

    def position(self, workload: Workload, partition: TopicPartition, at_us: int) -> int:
        """Return the offset of the next record that the reader hands over."""
        fastest = (
            self.offset + (at_us - self.since_us) * workload.rate * workload.catch_up // SECOND
        )
        return max(self.offset, min(workload.produced(partition, at_us), fastest))
