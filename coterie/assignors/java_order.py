"""The iteration order of Java's HashMap and HashSet [assignors/member-order].

Three of Kafka's assignors iterate over such maps, and their results depend on the order. The low
bits of a key's spread hash select its bucket; buckets are iterated in order, and the keys of a
bucket in the order of their insertion.

Java converts a bucket of more than eight keys to a tree, which may have another order. With usual
ids so many keys do not share a bucket.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

from coterie.assignors.model import TopicPartition
from coterie.protocol.java_hash import java_hash

_K = TypeVar("_K", bound=Hashable)
# Java's hash of a key.
Hashed = Callable[[_K], int]

# The capacity of a map that is created without one.
_FIRST_CAPACITY = 16
_LOAD_FACTOR = 0.75
_MASK = 0xFFFFFFFF
# Fewer keys are in order. Most groups have one member, whose hash need not be known then.
_TO_BE_ORDERED = 2


def in_map_order(keys: Iterable[str], made_for: int = _FIRST_CAPACITY) -> list[str]:
    """Return strings in the order of a HashMap into which they were inserted one by one.

    Args:
        keys: the strings.
        made_for: the capacity with which the map was made.
    """
    found = list(dict.fromkeys(keys))
    if len(found) < _TO_BE_ORDERED:
        return found
    capacity = _capacity(len(found), made_for)
    return sorted(found, key=lambda key: bucket(java_hash(key), capacity))


def ids_in_map_order(ids: Iterable[bytes]) -> list[bytes]:
    """Return topic ids in the order of a HashMap into which they were inserted one by one."""
    found = list(dict.fromkeys(ids))
    capacity = _capacity(len(found))
    return sorted(found, key=lambda each: bucket(topic_id_hash(each), capacity))


def ids_in_set_order(ids: Iterable[bytes]) -> list[bytes]:
    """Return topic ids in the order of a HashSet that was made of a collection of them."""
    found = list(dict.fromkeys(ids))
    # Java makes the table of such a set larger than it has to be.
    capacity = _FIRST_CAPACITY
    while capacity < int(len(found) / _LOAD_FACTOR) + 1:
        capacity *= 2
    return sorted(found, key=lambda each: bucket(topic_id_hash(each), capacity))


def numbers_in_set_order(numbers: Collection[int]) -> list[int]:
    """Return partition numbers in the order of a HashSet: ascending while the table is larger."""
    capacity = _capacity(len(numbers))
    if max(numbers, default=0) < capacity:
        return sorted(numbers)
    return sorted(sorted(numbers), key=lambda each: bucket(each, capacity))


def in_order_of_hashes(
    keys: Iterable[_K], hash_of: Hashed[_K], most: int, planned: int | None = None
) -> list[_K]:
    """Return keys in the order of a table of hashes into which they were inserted one by one.

    Args:
        keys: the keys in the order of their insertion.
        hash_of: returns the hash of a key.
        most: how many keys the table has had at once.
        planned: for how many Kafka made it; None for Java's first capacity.
    """
    size = table_size(most, planned)
    return sorted(keys, key=lambda each: bucket(hash_of(each), size))


def table_size(most: int, planned: int | None = None) -> int:
    """Return how many buckets a table of hashes has; see `in_order_of_hashes`."""
    size = _FIRST_CAPACITY
    if planned is not None:
        size = 1
        while size < int((planned + 1) / _LOAD_FACTOR + 1):
            size *= 2
    while most * 4 > size * 3:
        size *= 2
    return size


def signed_halves(topic_id: bytes) -> tuple[int, int]:
    """Return the key by which Java compares topic ids: two signed numbers of 64 bits."""
    most, least = topic_id[:8], topic_id[8:]
    return int.from_bytes(most, "big", signed=True), int.from_bytes(least, "big", signed=True)


def topic_id_hash(topic_id: bytes) -> int:
    """Return Java's hash of a topic id."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return ((both >> 32) ^ both) & _MASK


class PartitionSet:
    """A HashSet of partitions that returns the same first element as Java's."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, int] = {}
        # The largest size so far: Java's sets grow and never shrink.
        self._largest_size = 0

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Add a partition."""
        topic_hash = java_hash(partition.topic)
        self._partitions[partition] = 31 * (31 + partition.partition) + topic_hash
        self._largest_size = max(self._largest_size, len(self._partitions))

    def remove(self, partition: TopicPartition) -> None:
        """Remove a partition."""
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """Return the first partition of an iteration."""
        capacity = _capacity(self._largest_size)
        return min(self._partitions, key=lambda each: bucket(self._partitions[each], capacity))


def _capacity(size: int, made_for: int = _FIRST_CAPACITY) -> int:
    """Return the buckets of a map with so many keys: they double when it is three quarters full."""
    capacity = 1
    while capacity < made_for:
        capacity *= 2
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def bucket(value: int, capacity: int) -> int:
    """Return the bucket of a hash in a table of so many."""
    value &= _MASK
    return (value ^ value >> 16) & (capacity - 1)
