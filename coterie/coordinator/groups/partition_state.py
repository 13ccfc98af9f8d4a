"""The groups of one partition, as the verbs see them.

This module is the leaf below all verbs: a verb reads and changes groups through `PartitionState`
and does not see the shard around it, which loads the partition, queues its operations and fires
timers.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import restore
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.listing_order import ListingOrder
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.kernel.effects import Effects, TimerKind
from coterie.protocol.java_hash import java_hash


class GroupCount:
    """The groups of all partitions together, which are limited [coordinator/group-limit].

    Attributes:
        groups: how many there are.
        max_groups: how many there may be.
    """

    __slots__ = ("groups", "max_groups")

    def __init__(self, max_groups: int) -> None:
        self.groups = 0
        self.max_groups = max_groups


class PartitionState:
    """The groups of one `__consumer_offsets` partition.

    Attributes:
        config: the settings of the coordinator.
        new_uuid: returns a new random UUID as text, for member ids.
        groups: the live groups by id.
        logged: what the records of the partition add up to.
        marker_epochs: by producer id, the epoch of its latest marker, until that is durable.
        listing_order: the order in which the groups are listed.
        all_groups: the count of all partitions, which each of them keeps up to date.

    Invariant: `groups` has a group for every group id in `logged`, other types left out.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        max_groups: int,
        all_groups: GroupCount,
    ) -> None:
        """Start without groups.

        Args:
            config: the settings of the coordinator.
            new_uuid: returns a new random UUID as text, for member ids.
            max_groups: the most groups of this partition.
            all_groups: the count of all partitions, which each of them keeps up to date.
        """
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.logged = LoggedState()
        self.marker_epochs: dict[int, int] = {}
        self.listing_order = ListingOrder()
        self._max_groups = max_groups
        self.all_groups = all_groups

    def has_room_for_group(self) -> bool:
        """Return whether one more group may be created [coordinator/group-limit]."""
        count = self.all_groups
        return len(self.groups) < self._max_groups and count.groups < count.max_groups

    def create_group(self, group_id: str, now_ms: int) -> Group:
        """Create an Empty group."""
        assert group_id not in self.groups, f"{group_id} exists"
        group = self.groups[group_id] = Group(group_id, now_ms)
        # Its partition was looked up by this hash just now, so it is in a cache.
        group.id_hash = java_hash(group_id)
        self.all_groups.groups += 1
        self.listing_order.grow(len(self.groups))
        return group

    def remove_group(self, group_id: str, effects: Effects[Any]) -> None:
        """Remove an Empty group, whose tombstone was applied, with its pending members."""
        group = self.groups.pop(group_id)
        self.all_groups.groups -= 1
        assert group.state is GroupState.EMPTY, f"{group} is not Empty"
        for member_id in sorted(group.pending_joins):
            effects.cancel(TimerKind.PENDING, group_id, member_id)

    def producer_epoch(self, producer_id: int) -> int:
        """Return a producer's largest epoch that the log may not have yet; -1 for none."""
        marker_epoch = self.marker_epochs.get(producer_id, -1)
        return max(self.logged.pending.epoch(producer_id), marker_epoch)

    def restore_groups(self) -> None:
        """Create the groups that the records describe [coordinator/restored-groups]."""
        logged, groups = self.logged, self.groups
        assert not groups, "a partition is loaded into an empty state"
        for group_id, value in logged.groups.items():
            groups[group_id] = restore(group_id, value)
        for group_id in (*logged.offsets, *logged.pending.by_group):
            if group_id not in groups:
                groups[group_id] = restore(group_id, None)
        self.all_groups.groups += len(groups)
        self.listing_order.grow(len(groups))

    def forget_groups(self) -> None:
        """Forget all groups and what the records add up to."""
        self.all_groups.groups -= len(self.groups)
        self.groups = {}
        self.logged = LoggedState()
        self.marker_epochs = {}
        self.listing_order = ListingOrder()
