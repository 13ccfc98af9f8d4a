"""Share groups in transcripts: their records."""

from typing import Any

from coterie.conformance.consumer_group_lines import at_text
from coterie.conversation.consumer_group_requests import assignment_map
from coterie.conversation.names import Names
from coterie.conversation.syntax import format_list, quote
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.wire import Message

# The words for the records of each type.
SHARE_KINDS: dict[type[Message], str] = {
    ShareGroupMetadataKey: "share-epoch",
    ShareGroupMemberMetadataKey: "share-member",
    ShareGroupTargetAssignmentMetadataKey: "share-target",
    ShareGroupTargetAssignmentMemberKey: "share-target",
    ShareGroupCurrentMemberAssignmentKey: "share-assignment",
    ShareGroupStatePartitionMetadataKey: "share-state",
}


def share_value_text(value: Any, start_ms: int, names: Names) -> str:
    """Return the text of the value of a record of a share group."""
    if isinstance(value, ShareGroupMemberMetadataValue):
        rack = "" if value.rack_id is None else f"rack={quote(value.rack_id)} "
        topics = format_list(value.subscribed_topic_names)
        return f"{rack}client={value.client_id} topics={topics}"
    if isinstance(value, ShareGroupMetadataValue):
        return str(value.epoch)
    if isinstance(value, ShareGroupTargetAssignmentMetadataValue):
        return f"epoch={value.assignment_epoch}{at_text(value.assignment_timestamp, start_ms)}"
    if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
        epochs = f"{value.member_epoch}/{value.previous_member_epoch}"
        return f"{epochs} {assignment_map(value.assigned_partitions, names)}"
    if isinstance(value, ShareGroupStatePartitionMetadataValue):
        parts = [
            f"{word}={assignment_map(topics, names)}"
            for word, topics in (
                ("initializing", value.initializing_topics),
                ("initialized", value.initialized_topics),
            )
            if topics
        ]
        if value.deleting_topics:
            deleting = [names.partitioned(each.topic_id) for each in value.deleting_topics]
            parts.append(f"deleting={format_list(sorted(deleting))}")
        return " ".join(parts) or "nothing"
    return assignment_map(value.topic_partitions, names)
