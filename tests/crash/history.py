"""What clients were told while a scenario ran, and so what a restart has to find.

A register is one thing that clients know of: the groups of a partition, a topic. It remembers every
state it has had, and at each moment of the disk which of them was the newest one acknowledged and
which the newest one asked for. A restart may find any state between the two and nothing else: what
was acknowledged is there, an unacknowledged request is wholly there or not at all, and nothing
later stands without what came before it.
"""

from bisect import bisect_right
from collections.abc import Hashable
from typing import Any, NamedTuple

# A group log: its end offset, and the newest value of each key.
GroupState = tuple[int, frozenset[tuple[bytes, bytes]]]
NO_GROUPS: GroupState = (0, frozenset())


class TopicState(NamedTuple):
    """An ordinary topic of one partition: which topic, and from where to where its log goes."""

    topic_id: bytes
    start: int
    end: int


class Register:
    """The states of one thing, by number, and how far they were acknowledged."""

    def __init__(self, state: Hashable) -> None:
        self.states: list[Any] = [state]
        # (operations the disk had done, newest acknowledged state, newest state).
        self.moments: list[tuple[int, int, int]] = [(0, 0, 0)]

    def change(self, operations: int, state: Hashable) -> None:
        """A new state is asked for; the next operation may bring it to the disk."""
        self.states.append(state)
        self.moments.append((operations, self.moments[-1][1], len(self.states) - 1))

    def acknowledge(self, operations: int) -> None:
        """Clients are told that the newest state stands."""
        newest = len(self.states) - 1
        self.moments.append((operations, newest, newest))

    def settle(self, number: int) -> None:
        """A restart found this state: it is the newest one, of those that there were."""
        del self.states[number + 1 :]

    def bounds(self, operations: int) -> tuple[int, int]:
        """The least and the greatest state that a crash after so many operations may leave."""
        at = bisect_right(self.moments, (operations, len(self.states), len(self.states)))
        _, acknowledged, newest = self.moments[at - 1]
        return acknowledged, newest


class History:
    """The registers of one data directory."""

    def __init__(self) -> None:
        self.groups = Register(NO_GROUPS)
        self.topics: dict[str, Register] = {}
        # Every value that was ever appended to a topic, by its offset.
        self.values: dict[bytes, list[bytes]] = {}

    def topic(self, name: str) -> Register:
        """The register of a topic, which does not exist at first."""
        return self.topics.setdefault(name, Register(None))
