"""One answer put together from parts that become ready at different times.

A request that names several groups touches several partitions, each of which may hold its part
until its appends are durable.
"""

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.effects import Effects, Reply


class Gather:
    """An answer in the making: a list of parts inside a message that leaves when the last part is
    there.
    """

    __slots__ = ("items", "message", "missing", "to")

    def __init__(self, to: Hashable, message: Any, items: list[Any]) -> None:
        """`items` is the list inside `message` that the parts go into, one place each."""
        self.to = to
        self.message = message
        self.items = items
        self.missing = len(items)


class Part:
    """The place of one part: what an operation holds instead of a reply address."""

    __slots__ = ("gather", "index")

    def __init__(self, gather: Gather, index: int) -> None:
        self.gather = gather
        self.index = index

    def fill(self, item: Any, effects: Effects) -> None:
        """Put the part in its place; with the last one the whole answer leaves."""
        gather = self.gather
        gather.items[self.index] = item
        gather.missing -= 1
        assert gather.missing >= 0, "a part is filled once"
        if not gather.missing:
            effects.replies.append(Reply(gather.to, gather.message))
