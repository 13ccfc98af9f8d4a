"""One step of a classic group."""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.step import GroupStep


class Step(GroupStep[Group]):
    """A step of one classic group: the value that every function of a verb receives."""

    __slots__ = ()
