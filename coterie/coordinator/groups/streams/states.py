"""The states of a streams group and of its members.

A group has no state of its own: it follows from its records [streams-groups/group-states].

Empty
    The group has no members.
NotReady
    Its topology is not validated: topics are missing, or have the wrong partitions. Nobody has
    tasks.
Assigning
    The group epoch is larger than the epoch of the target: a new target is due, or waits for the
    initial delay or the assignment interval.
Reconciling
    The target is up to date, and at least one member is not there yet.
Stable
    Every member is STABLE at the epoch of the target.
Dead
    The partition was given up; every request is refused.

A member goes from one target to the next in its own heartbeats [streams-groups/reconciliation]:

STABLE
    It has its part of the target of its epoch.
UNREVOKED_TASKS
    It has been asked to give tasks up, and has not confirmed it.
UNRELEASED_TASKS
    It is at the epoch of the target and waits for tasks that are still held elsewhere.
UNKNOWN
    A record of other software. The member begins again without tasks.
"""

from enum import IntEnum, StrEnum


class GroupState(StrEnum):
    """The states of a group, by their names on the wire."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The states of a member, by their numbers in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
