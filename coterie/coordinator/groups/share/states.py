"""The states of a share group.

A group has no state of its own: it follows from its members [share-groups/group-states].

Empty
    The group has no members. It keeps its epoch, and stays until it is deleted.
Stable
    It has members. They take their part of a new target at once, since several may have a
    partition: nobody waits for anybody.
Dead
    The partition was given up; every request is refused.
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The states of a group, by their names on the wire."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


# The only state that Kafka writes for a member.
MEMBER_STABLE = 0
