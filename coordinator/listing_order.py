"""The order in which Kafka lists the groups of a partition [administration/list-order].

Kafka keeps groups in a hash table of its own that never shrinks. Tools and tests compare lists of
groups, so the same order is given here. It is computed when groups are listed; between listings
only the size of Kafka's table is kept.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from coterie.coordinator.group_like import GroupLike
from coterie.protocol.java_hash import java_hash

G = TypeVar("G", bound=GroupLike)

# Fibonacci hashing: the golden ratio as a fraction of 2**64.
_MULTIPLIER = -7046029254386353131 % (1 << 64)
_MASK = (1 << 64) - 1
# The table has at most one entry and a third for each slot.
_SLOTS_PER_ENTRY = 0.75


class ListingOrder:
    """The size of Kafka's table for the groups of a partition."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        """Start with the table of a partition without groups: two slots."""
        self._bits = 1

    def grow(self, groups: int) -> None:
        """Note that the partition has so many groups now; the table doubles and never shrinks."""
        while _SLOTS_PER_ENTRY * groups > 1 << self._bits:
            self._bits += 1

    def slot(self, group: GroupLike) -> int:
        """Return the slot of a group."""
        value = group.id_hash
        if value is None:
            value = group.id_hash = java_hash(group.group_id)
        return (value * _MULTIPLIER & _MASK) >> (64 - self._bits)

    def parts(self, groups: Sequence[G], size: int) -> Iterator[list[G]]:
        """Yield groups in Kafka's order: by slot, in a slot the latest first.

        They are yielded in parts, and empty parts before them, so that the caller can let others
        work in between.

        Args:
            groups: all groups of the partition, in the order in which they were created.
            size: how many groups are handled before a part is yielded.
        """
        latest_first = iter(groups[::-1])
        slots: list[int] = []
        while part := list(islice(latest_first, size)):
            if slots:
                yield []
            slots += map(self.slot, part)
        ordered = [groups[-1 - at] for at in sorted(range(len(slots)), key=slots.__getitem__)]
        for first in range(0, len(ordered), size):
            yield ordered[first : first + size]
