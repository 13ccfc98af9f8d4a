"""What was acknowledged to clients in a scenario, and therefore what a restart has to find.

A register is one thing that clients can see: the groups of a partition, or a topic. It keeps all of
its states, and for each moment of the disk the newest state that was acknowledged and the newest
one that was requested. A restart may find any state between these two and no other: what was
acknowledged is there, an unacknowledged request is there completely or not at all, and no later
request is there without the earlier ones.
"""

from bisect import bisect_right
from collections.abc import Hashable
from typing import Any, NamedTuple

from tests.crash.producers import Sent

# The state of a group log: its end offset, and the newest value of each key.
GroupState = tuple[int, frozenset[tuple[bytes, bytes]]]
NO_GROUPS: GroupState = (0, frozenset())


class TopicState(NamedTuple):
    """An ordinary topic with one partition: its id, and where its log begins and ends."""

    topic_id: bytes
    start: int
    end: int


class Register:
    """The states of one thing, in order, and how far they were acknowledged."""

    def __init__(self, state: Hashable) -> None:
        self.states: list[Any] = [state]
        # The number of operations of the disk, the newest acknowledged state, the newest state.
        self.moments: list[tuple[int, int, int]] = [(0, 0, 0)]

    def change(self, operations: int, state: Hashable) -> None:
        """Add a state that was requested. The next operation may write it to the disk."""
        _, acknowledged, _ = self.moments[-1]
        self.states.append(state)
        self.moments.append((operations, acknowledged, len(self.states) - 1))

    def acknowledge(self, operations: int, number: int | None = None) -> None:
        """Note that a state, by default the newest, was acknowledged to clients."""
        newest = len(self.states) - 1
        self.moments.append((operations, newest if number is None else number, newest))

    @property
    def newest(self) -> int:
        """The number of the newest state."""
        return len(self.states) - 1

    def settle(self, number: int) -> None:
        """Make the state that a restart has found the newest one."""
        del self.states[number + 1 :]

    def bounds(self, operations: int) -> tuple[int, int]:
        """Return the first and the last state that a crash may leave, as indexes of `states`."""
        at = bisect_right(self.moments, (operations, len(self.states), len(self.states)))
        _, acknowledged, newest = self.moments[at - 1]
        return acknowledged, newest


class History:
    """The registers of one data directory."""

    def __init__(self) -> None:
        self.groups = Register(NO_GROUPS)
        # What the settings file holds; None if there is none.
        self.settings = Register(None)
        self.topics: dict[str, Register] = {}
        # Every value that was ever appended to a topic, in the order of offsets, by topic id.
        self.values: dict[bytes, list[bytes]] = {}
        # The batches of these values, for topics whose producers have ids.
        self.sent: dict[bytes, list[Sent]] = {}

    def topic(self, name: str) -> Register:
        """Return the register of a topic, whose first state is that it does not exist."""
        return self.topics.setdefault(name, Register(None))
