"""The records of share groups: what they add up to [share-groups/records]."""

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.groups.share.group import SHARE, ShareGroup
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)

KEYS = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)


class ShareRecords(RecordedGroups):
    """The share groups of one partition."""

    def __init__(self) -> None:
        """Start without records."""
        super().__init__(KEYS, ShareGroup)
        self.groups: dict[str, ShareGroup] = {}


def share_groups(partition: PartitionState) -> list[ShareGroup]:
    """Return the share groups of a partition, as its log describes them."""
    records = partition.logged.of_types[SHARE]
    assert isinstance(records, ShareRecords), records
    return list(records.groups.values())
