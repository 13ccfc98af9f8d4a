"""Share groups in transcripts: their records, and what the core holds of them."""

from typing import Any

from coterie.conformance.consumer_group_lines import at_text
from coterie.conversation.consumer_group_requests import assignment_map
from coterie.conversation.names import Names
from coterie.conversation.syntax import format_list, format_time, quote
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.coordinator.kernel.purgatory import Purgatory
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

_KINDS = {
    ShareGroupMetadataKey: "share-epoch",
    ShareGroupMemberMetadataKey: "share-member",
    ShareGroupTargetAssignmentMetadataKey: "share-target",
    ShareGroupTargetAssignmentMemberKey: "share-target",
    ShareGroupCurrentMemberAssignmentKey: "share-assignment",
    ShareGroupStatePartitionMetadataKey: "share-state",
}


def share_record_text(key: Any, value: Message | None, start_ms: int, names: Names) -> str:
    """Return the text of a record of a share group.

    Args:
        key: the key.
        value: the value; None for a tombstone.
        start_ms: the start of virtual time.
        names: the names of the transcript.
    """
    parts = [_KINDS[type(key)], quote(key.group_id)]
    if hasattr(key, "member_id"):
        parts.append(quote(key.member_id))
    elif value is None and isinstance(key, ShareGroupTargetAssignmentMetadataKey):
        parts.append("epoch")
    parts.append("tombstone" if value is None else _value_text(value, start_ms, names))
    return " ".join(parts)


def _value_text(value: Any, start_ms: int, names: Names) -> str:
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


def share_state_text(group: ShareGroup) -> str:
    """Return one line about a group as the core holds it."""
    epochs = f"epoch={group.epoch} assignment_epoch={group.target_epoch}"
    members = format_list([f"{each.member_id} {each.epoch}" for each in group.ordered_members()])
    return f"state {quote(group.group_id)} {group.state_name} {epochs} members={members}"


def share_timer_texts(group: ShareGroup, purgatory: Purgatory, start_ms: int) -> list[str]:
    """Return the sessions of the members, each with the time at which it ends."""
    return [
        f"timer {TimerKind.SESSION.value} {member_id} {format_time(member.deadline_ms - start_ms)}"
        for member_id, member in group.members.items()
        if purgatory.deadline_ms((TimerKind.SESSION, group.group_id, member_id)) is not None
    ]
