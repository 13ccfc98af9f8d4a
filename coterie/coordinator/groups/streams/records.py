"""The records of streams groups: what they add up to [streams-groups/records]."""

from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)

KEYS = (
    StreamsGroupMetadataKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTopologyKey,
)


class StreamsRecords(RecordedGroups):
    """The streams groups of one partition."""

    def __init__(self) -> None:
        """Start without records."""
        super().__init__(KEYS, StreamsGroup)
        self.groups: dict[str, StreamsGroup] = {}
