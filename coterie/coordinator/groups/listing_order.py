"""The order in which Kafka lists the groups of a partition, and the members of a consumer group.

[administration/list-order]

Kafka keeps groups in a hash table of its own that never shrinks. Tools and tests compare lists of
groups, so the same order is given here. It is computed when groups are listed; between listings
only the size of Kafka's table is kept.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

from coterie.coordinator.groups.group_like import GroupLike
from coterie.protocol.java_hash import java_hash

G = TypeVar("G", bound=GroupLike)

# Fibonacci hashing: the golden ratio as a fraction of 2**64.
_MULTIPLIER = -7046029254386353131 % (1 << 64)
_MASK = (1 << 64) - 1
# The table has at most one entry and a third for each slot.
_SLOTS_PER_ENTRY = 0.75
# The table of a partition without groups, or of a group without members, has two slots.
_FIRST_BITS = 1
# Fewer ids are in order. Most groups have one member, whose hash need not be known then.
_TO_BE_ORDERED = 2


class ListingOrder:
    """The size of Kafka's table for the groups of a partition."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        """Start with the table of a partition without groups."""
        self._bits = _FIRST_BITS

    def grow(self, groups: int) -> None:
        """Note that the partition has so many groups now; the table doubles and never shrinks."""
        self._bits = _bits(groups, self._bits)

    def slot(self, group: GroupLike) -> int:
        """Return the slot of a group."""
        value = group.id_hash
        if value is None:
            value = group.id_hash = java_hash(group.group_id)
        return _slot(value, self._bits)

    def parts(self, groups: Sequence[G], size: int) -> Iterator[list[G]]:
        """Yield groups in Kafka's order: by slot, in a slot the latest first.

        They are yielded in parts, and empty parts between them, so that the caller can let others
        work in between.

        Args:
            groups: all groups of the partition, in the order in which they were created.
            size: about how many groups are handled before a part is yielded.
        """
        # Some slots make a bucket, so that a bucket has about `size` groups to be sorted.
        shift = max(0, self._bits - (len(groups) // size).bit_length())
        buckets: list[list[tuple[int, G]]] = [[] for _ in range(1 << (self._bits - shift))]
        for last in range(len(groups), 0, -size):
            for group in groups[max(0, last - size) : last][::-1]:
                slot = self.slot(group)
                buckets[slot >> shift].append((slot, group))
            yield []
        for bucket in buckets:
            bucket.sort(key=itemgetter(0))
            yield [group for _, group in bucket]


def in_listing_order(ids: Sequence[str], most: int) -> list[str]:
    """Return the ids of the members of a group in Kafka's order.

    Args:
        ids: the ids in the order in which they were added.
        most: the most members that the group has had.
    """
    assert len(ids) <= most, "a group has had the members that it has"
    if len(ids) < _TO_BE_ORDERED:
        return list(ids)
    bits = _bits(most, _FIRST_BITS)
    latest_first = ids[::-1]
    return sorted(latest_first, key=lambda each: _slot(java_hash(each), bits))


def _slot(value: int, bits: int) -> int:
    """Return the slot of a hash in a table of 2 ** bits slots."""
    return (value * _MULTIPLIER & _MASK) >> (64 - bits)


def _bits(entries: int, bits: int) -> int:
    """Return the size of a table after it has grown to so many entries."""
    while _SLOTS_PER_ENTRY * entries > 1 << bits:
        bits += 1
    return bits
