"""The groups of one partition, as the verbs see them.

This module is the leaf below all verbs: a verb reads and changes groups through `PartitionState`
and does not see the shard around it, which loads the partition, queues its operations and fires
timers.
"""

from collections.abc import Callable

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Effects, TimerKind
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.replay import LoggedState


class PartitionState:
    """The groups of one `__consumer_offsets` partition.

    Attributes:
        config: the settings of the coordinator.
        new_uuid: returns a new random UUID as text, for member ids.
        groups: the live groups by id.
        logged: what the records of the partition add up to.

    Invariant: `groups` has a group for every group id in `logged`.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        max_groups: int,
        others_leave_room: Callable[[], bool],
    ) -> None:
        """Start without groups.

        Args:
            config: the settings of the coordinator.
            new_uuid: returns a new random UUID as text, for member ids.
            max_groups: the most groups of this partition.
            others_leave_room: returns whether all partitions together have room for a group.
        """
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.logged = LoggedState()
        self._max_groups = max_groups
        self._others_leave_room = others_leave_room

    def has_room_for_group(self) -> bool:
        """Return whether one more group may be created [coordinator/group-limit]."""
        return len(self.groups) < self._max_groups and self._others_leave_room()

    def create_group(self, group_id: str, now_ms: int) -> Group:
        """Create an Empty group."""
        assert group_id not in self.groups, f"{group_id} exists"
        group = self.groups[group_id] = Group(group_id, now_ms)
        return group

    def remove_group(self, group_id: str, effects: Effects) -> None:
        """Remove an Empty group, whose tombstone was applied, with its pending members."""
        group = self.groups.pop(group_id)
        assert group.state is GroupState.EMPTY, f"{group} is not Empty"
        for member_id in sorted(group.pending_joins):
            effects.cancel(TimerKind.PENDING, group_id, member_id)
