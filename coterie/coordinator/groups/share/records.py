"""The records of share groups: what they add up to [share-groups/records]."""

from collections.abc import Iterator, Mapping

from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from coterie.protocol.wire import Message

KEYS = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)


class ShareRecords(GroupRecords):
    """The share groups of one partition.

    Attributes:
        groups: by id, those of which the log says anything. They are the live groups.
    """

    def __init__(self) -> None:
        """Start without records."""
        super().__init__(KEYS)
        self.groups: dict[str, ShareGroup] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        """See `GroupRecords`; a record that its verb has applied is not applied again."""
        group_id: str = key.group_id  # type: ignore[attr-defined]  # the first field of each key
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[group_id] = ShareGroup(group_id)
        if group.unlogged:
            group.unlogged -= 1
        else:
            group.apply(key, value)
        if group.is_blank and not group.unlogged:
            del self.groups[group_id]

    def values(self) -> Mapping[str, Message]:
        """See `GroupRecords`."""
        return dict(self._values())

    def _values(self) -> Iterator[tuple[str, Message]]:
        for group_id, group in self.groups.items():
            for name, value in (
                ("epoch", group.metadata),
                ("target epoch", group.target_metadata),
                ("state partitions", group.state_value),
            ):
                if value is not None:
                    yield f"{group_id} {name}", value
            for member_id, member in group.members.items():
                if member.subscription is not None:
                    yield f"{group_id} subscription {member_id}", member.subscription
                if member.current is not None:
                    yield f"{group_id} assignment {member_id}", member.current
            for member_id, target in group.target_values.items():
                yield f"{group_id} target {member_id}", target
