"""What follows when the records of an operation are durable, or have failed: as values, not
callbacks.

The shard keeps one beside each append that has a sequel and hands it to the verb it came from (spec
section 14.2: joins, syncs and static replacements change memory first and compensate by hand).
Each names the group itself: one that was deleted and made again meanwhile is another group, though
its id and generation may be the same.
"""

from typing import NamedTuple

from coterie.coordinator.group import Group, Protocols


class GroupCreated(NamedTuple):
    """A first JoinGroup made a group: if its record fails the group is undone and whoever is parked
    is told.
    """

    group: Group


class AssignmentStored(NamedTuple):
    """The leader's SyncGroup: durable, it makes the group Stable; failed, it costs a rebalance
    (spec section 5).
    """

    group: Group
    generation_id: int
    assignments: dict[str, bytes]


class StaticMemberReplaced(NamedTuple):
    """A static member came back in a Stable group: durable, it is answered; failed, its old self is
    restored (spec 8).
    """

    group: Group
    generation_id: int
    group_instance_id: str
    member_id: str
    old_member_id: str
    previous_leader: str
    skips_assignment: bool
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int


Completion = GroupCreated | AssignmentStored | StaticMemberReplaced
