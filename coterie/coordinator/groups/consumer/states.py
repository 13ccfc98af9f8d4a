"""The states of a consumer group and of its members.

A group has no state of its own: it follows from epochs [consumer-groups/group-states].

Empty
    The group has no members. It keeps its epoch.
Assigning
    The group epoch is larger than the epoch of the target assignment: members or topics have
    changed, and the next heartbeat after the assignment interval computes a new target.
Reconciling
    The target is up to date, and at least one member is not there yet.
Stable
    Every member is STABLE at the epoch of the target.
Dead
    The partition was given up; every request is refused.

A member goes from one target to the next in its own heartbeats
[consumer-groups/reconciliation]:

STABLE
    It owns its part of the target of its epoch.
    - The target is newer and takes partitions away: -> UNREVOKED_PARTITIONS, at its old epoch.
    - The target is newer and takes nothing away: its epoch is that of the target, and it is STABLE,
      or UNRELEASED_PARTITIONS if others still own a part of what it shall have.
UNREVOKED_PARTITIONS
    It has been asked to give partitions up, and has not confirmed it.
    - It reports what it owns, without those: as out of STABLE. It may be asked for more.
    - The revocation timer fires: it is removed.
UNRELEASED_PARTITIONS
    It is at the epoch of the target and waits for partitions that other members still own.
    - Each heartbeat gives it those that have become free.
UNKNOWN
    A record of other software. The member begins again without partitions.
"""

from enum import IntEnum, StrEnum


class GroupState(StrEnum):
    """The states of a group, by their names on the wire."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The states of a member, by their numbers in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


# By their numbers: a look into a table is faster than the property of an enumeration.
STATE_NAMES: dict[int, str] = {int(each): each.name for each in MemberState}

# The epoch of a static member that leaves for a while.
STATIC_LEAVE_EPOCH = -2
