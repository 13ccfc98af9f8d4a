"""The groups of one partition, as the verbs see them.

This module is the leaf below all verbs: a verb reads and changes groups through `PartitionState`
and does not see the rest of the shard, which knows the types of groups and fires timers.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.batch_size import always_fitting_offsets
from coterie.coordinator.groups.config import (
    ConsumerSettings,
    GroupConfig,
    ShareSettings,
    StreamsSettings,
)
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.listing_order import ListingOrder
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard import Shard
from coterie.coordinator.kernel.shard_state import ACTIVE
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
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


class PartitionState(Shard):
    """The groups of one `__consumer_offsets` partition.

    Attributes:
        config: the settings of the coordinator.
        new_uuid: returns a new random UUID as text, for member ids.
        groups: the live groups by id.
        logged: what the records of the partition add up to.
        marker_epochs: by producer id, the epoch of its latest marker, until that is durable.
        held_offsets: while the partition is held, the offsets of groups that have changed since.
        listing_order: the order in which the groups are listed.
        all_groups: the count of all partitions, which each of them keeps up to date.
        topics: the topics of the cluster.

    Invariant: `groups` has a group for every group id in `logged`, other types left out.
    """

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        max_groups: int,
        all_groups: GroupCount,
        logged: LoggedState,
        topics: TopicsImage,
    ) -> None:
        """Start without groups.

        Args:
            partition: its number.
            config: the settings of the coordinator.
            new_uuid: returns a new random UUID as text, for member ids.
            max_groups: the most groups of this partition.
            all_groups: the count of all partitions, which each of them keeps up to date.
            logged: what its records add up to before the first one.
            topics: the topics of the cluster.
        """
        super().__init__(partition, always_fitting_offsets(config.offset_metadata_max_size))
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, GroupLike] = {}
        self.logged = logged
        self.marker_epochs: dict[int, int] = {}
        self.held_offsets: dict[str, Any] = {}
        self.listing_order = ListingOrder()
        self._max_groups = max_groups
        self.all_groups = all_groups
        self.topics = topics

    def has_room_for_group(self) -> bool:
        """Return whether one more group may be created [coordinator/group-limit]."""
        count = self.all_groups
        return len(self.groups) < self._max_groups and count.groups < count.max_groups

    def new_group(self, group_id: str, now_ms: int) -> GroupLike:
        """Return the group that a commit to an unknown group creates, which is not here yet."""
        raise NotImplementedError

    def handle(
        self, group: GroupLike, now_ms: int, request: Any, context: RequestContext
    ) -> Effects[Any]:
        """Let the type of a group handle a request of another type's protocol."""
        raise NotImplementedError

    def before_deletion(
        self, group: GroupLike, now_ms: int, context: RequestContext, to: Any
    ) -> Effects[Any] | None:
        """Let the type of a group do what comes before its deletion; None if nothing does."""
        raise NotImplementedError

    def close(self, group: GroupLike, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """Answer the delayed requests of a group that another one is to replace.

        It is out of use afterwards, so its verb has made sure that the operation fits a batch.
        """
        raise NotImplementedError

    def leave_out(self, group: GroupLike, effects: Effects[Any]) -> None:
        """Remove a group without members in whose place a verb is about to add another one."""
        raise NotImplementedError

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """Return the settings of a consumer group: its own ones, or those of the broker."""
        return self.config.consumer.settings.of(group_id)

    def share_settings(self, group_id: str) -> ShareSettings:
        """Return the settings of a share group: its own ones, or those of the broker."""
        return self.config.share.settings.of(group_id)

    def streams_settings(self, group_id: str) -> StreamsSettings:
        """Return the settings of a streams group: its own ones, or those of the broker."""
        return self.config.streams.settings.of(group_id)

    def add_group(self, group: GroupLike) -> None:
        """Add a group that was created."""
        group_id = group.group_id
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        assert group.exists, f"{group} was given up"
        assert group_id not in self.groups, f"{group_id} exists"
        self.groups[group_id] = group
        # Its partition was looked up by this hash just now, so it is in a cache.
        group.id_hash = java_hash(group_id)
        self.all_groups.groups += 1
        assert self.all_groups.groups >= len(self.groups), "the count has each group"
        self.listing_order.grow(len(self.groups))

    def producer_epoch(self, producer_id: int) -> int:
        """Return a producer's largest epoch that the log may not have yet; -1 for none."""
        marker_epoch = self.marker_epochs.get(producer_id, -1)
        return max(self.logged.pending.epoch(producer_id), marker_epoch)

    def forget_groups(self, logged: LoggedState) -> None:
        """Forget all groups and what the records add up to."""
        assert logged is not self.logged, "another state takes the place of the present one"
        assert not logged.offsets, "a partition that is forgotten has no offsets"
        self.all_groups.groups -= len(self.groups)
        assert self.all_groups.groups >= 0, "a number of groups is not negative"
        self.groups = {}
        self.logged = logged
        self.marker_epochs = {}
        self.listing_order = ListingOrder()
