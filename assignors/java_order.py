"""The order in which Java's HashMap and HashSet give their keys back.

Two of Kafka's assignors go over such maps and keep what they meet first, so their results depend on
it: the same members must be met in the same order here. A key stands in the bucket that the low
bits of its spread hash name; buckets come in order, keys of a bucket in the order in which they
were put in. Java turns a bucket of more than eight keys into a tree, whose order is the same as
long as nothing is looked up by order; maps that large in one bucket do not occur with honest ids.
"""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.protocol.java_hash import java_hash

# Of a map that is made without a size.
_FIRST_CAPACITY = 16
_MASK = 0xFFFFFFFF


def in_map_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of a HashMap that they were put into one after the other."""
    found = list(dict.fromkeys(keys))
    capacity = _capacity(len(found))
    return sorted(found, key=lambda key: _bucket(java_hash(key), capacity))


class PartitionSet:
    """A HashSet of partitions, as far as its first element goes."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, int] = {}
        # Java's sets grow and never shrink.
        self._most = 0

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Put a partition in."""
        topic_hash = java_hash(partition.topic)
        self._partitions[partition] = 31 * (31 + partition.partition) + topic_hash
        self._most = max(self._most, len(self._partitions))

    def remove(self, partition: TopicPartition) -> None:
        """Take a partition out."""
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """The partition that an iterator would give first."""
        capacity = _capacity(self._most)
        return min(self._partitions, key=lambda each: _bucket(self._partitions[each], capacity))


def _capacity(size: int) -> int:
    """The buckets of a map that holds so many keys: doubled when it is three quarters full."""
    capacity = _FIRST_CAPACITY
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def _bucket(value: int, capacity: int) -> int:
    value &= _MASK
    return (value ^ value >> 16) & (capacity - 1)
