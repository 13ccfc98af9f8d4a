"""Consumer groups in transcripts: their records.

    log+ epoch orders 2
    log+ member orders m1 client=c1 timeout=5m topics=[foo]
    log+ target orders m1 {foo: [0-5]}
    log+ target orders epoch=2 at 00:00.000
    log+ assignment orders m1 2/0 STABLE {foo: [0-5@2]} pending {bar: [0@1]}
    log+ regex orders f.* topics=[foo] at 00:00.000

`2/0` is the epoch and the previous epoch of the member, `@2` the epoch at which it received the
partitions.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.conversation.consumer_group_requests import assignment_map, run_text
from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    duration_text,
    format_list,
    format_map,
    format_time,
    quote,
)
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from coterie.protocol.messages.share_group_records import ShareGroupTargetAssignmentMetadataKey
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from coterie.protocol.wire import Message

_STATES = {state.value: state.name for state in MemberState}
# The words for the records of each type.
CONSUMER_KINDS: dict[type[Message], str] = {
    ConsumerGroupMetadataKey: "epoch",
    ConsumerGroupPartitionMetadataKey: "old-topics",
    ConsumerGroupMemberMetadataKey: "member",
    ConsumerGroupTargetAssignmentMetadataKey: "target",
    ConsumerGroupTargetAssignmentMemberKey: "target",
    ConsumerGroupCurrentMemberAssignmentKey: "assignment",
    ConsumerGroupRegularExpressionKey: "regex",
}

# Records of the epoch of a target have the word of those of a member's target; a tombstone needs
# another one.
_TARGET_EPOCHS = (
    ConsumerGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
)


def keyed_text(kind: str, key: Any, value: str | None) -> str:
    """Return the text of a record of a group of any type with heartbeats.

    Args:
        kind: the word for records of its type.
        key: the key.
        value: the text of the value; None for a tombstone.
    """
    parts = [kind, quote(key.group_id)]
    if isinstance(key, ConsumerGroupRegularExpressionKey):
        parts.append(quote(key.regular_expression))
    elif hasattr(key, "member_id"):
        parts.append(quote(key.member_id))
    elif value is None and isinstance(key, _TARGET_EPOCHS):
        parts.append("epoch")
    parts.append("tombstone" if value is None else value)
    return " ".join(parts)


def consumer_value_text(value: Any, start_ms: int, names: Names) -> str:
    """Return the text of the value of a record of a consumer group."""
    if isinstance(value, ConsumerGroupMemberMetadataValue):
        return _member_text(value)
    if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
        at = at_text(value.assignment_timestamp, start_ms)
        return f"epoch={value.assignment_epoch}{at}"
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return _current_text(value, names)
    if isinstance(value, ConsumerGroupRegularExpressionValue):
        return f"topics={format_list(value.topics)}{at_text(value.timestamp, start_ms)}"
    if hasattr(value, "topic_partitions"):
        return assignment_map(value.topic_partitions, names)
    if hasattr(value, "epoch"):
        return str(value.epoch)
    return format_list([each.topic_name for each in value.topics])


def at_text(time_ms: int, start_ms: int) -> str:
    """Return when a target was computed or a regular expression resolved, if that is known."""
    return f" at {format_time(time_ms - start_ms)}" if time_ms else ""


def _member_text(value: ConsumerGroupMemberMetadataValue) -> str:
    parts = []
    if value.instance_id is not None:
        parts.append(f"instance={quote(value.instance_id)}")
    if value.rack_id is not None:
        parts.append(f"rack={quote(value.rack_id)}")
    parts.append(f"client={value.client_id} timeout={duration_text(value.rebalance_timeout_ms)}")
    parts.append(f"topics={format_list(value.subscribed_topic_names)}")
    if value.subscribed_topic_regex:
        parts.append(f"regex={quote(value.subscribed_topic_regex)}")
    if value.server_assignor is not None:
        parts.append(f"assignor={value.server_assignor}")
    classic = value.classic_member_metadata
    if classic is not None:
        protocols = format_list([each.name for each in classic.supported_protocols])
        parts.append(f"session={duration_text(classic.session_timeout_ms)} protocols={protocols}")
    return " ".join(parts)


def _current_text(value: ConsumerGroupCurrentMemberAssignmentValue, names: Names) -> str:
    state = _STATES.get(value.state, str(value.state))
    text = f"{value.member_epoch}/{value.previous_member_epoch} {state}"
    text += f" {_owned_text(value.assigned_partitions, names)}"
    if value.partitions_pending_revocation:
        text += f" pending {_owned_text(value.partitions_pending_revocation, names)}"
    return text


def _owned_text(topics: list[CurrentTopicPartitions], names: Names) -> str:
    return owned_map(
        (names.partitioned(topic.topic_id), topic.partitions, topic.assignment_epochs)
        for topic in topics
    )


def owned_map(owned: Iterable[tuple[str, Sequence[int], Sequence[int] | None]]) -> str:
    """Return partitions with the epochs at which a member received them, as `{foo: [0-2@3]}`.

    Args:
        owned: by their names; each with the partitions and their epochs, which may be unknown.
    """
    entries = []
    for name, partitions, known in owned:
        epochs: Sequence[Any] = known or [None] * len(partitions)
        runs: list[tuple[int, int, int | None]] = []
        for index, epoch in sorted(zip(partitions, epochs, strict=True)):
            if runs and (sum(runs[-1][:2]), runs[-1][2]) == (index, epoch):
                runs[-1] = (runs[-1][0], runs[-1][1] + 1, epoch)
            else:
                runs.append((index, 1, epoch))
        texts = [
            run_text(first, count) + ("" if epoch is None else f"@{epoch}")
            for first, count, epoch in runs
        ]
        entries.append((name, format_list(texts)))
    return format_map(sorted(entries))
