"""Java's PriorityQueue of numbered items: which of items with equal keys comes first.

It is a binary heap. Python's `heapq` moves items in another way, so equal keys come out in another
order. The caller changes a key only while its item is not in the queue.
"""

from collections.abc import Iterable, Sequence


class JavaQueue:
    """Items in the order of their keys.

    Attributes:
        items: the heap.
    """

    __slots__ = ("_keys", "items")

    def __init__(self, items: Iterable[int], keys: Sequence[float]) -> None:
        """Add items one by one.

        Args:
            items: the items, as indexes into the keys.
            keys: the key of each item, which may change.
        """
        self._keys = keys
        self.items: list[int] = []
        for item in items:
            self.add(item)

    def add(self, item: int) -> None:
        """Add an item."""
        items, keys = self.items, self._keys
        key = keys[item]
        at = len(items)
        items.append(item)
        while at > 0:
            parent = (at - 1) >> 1
            other = items[parent]
            if key >= keys[other]:
                break
            items[at] = other
            at = parent
        items[at] = item

    def poll(self) -> int:
        """Remove the first item, of which there must be one, and return it."""
        items, keys = self.items, self._keys
        first = items[0]
        last = items.pop()
        size = len(items)
        if size == 0:
            return first
        key = keys[last]
        at, half = 0, size >> 1
        while at < half:
            child = 2 * at + 1
            other = items[child]
            right = child + 1
            if right < size and keys[other] > keys[items[right]]:
                child, other = right, items[right]
            if key <= keys[other]:
                break
            items[at] = other
            at = child
        items[at] = last
        return first
