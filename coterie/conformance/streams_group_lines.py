"""Streams groups in transcripts: their records.

log+ streams-member orders m1 client=c1 timeout=5m process=p1
log+ streams-topology orders {0: {sources: [foo]}}
log+ streams-epoch orders 2 validated=0 {num.standby.replicas: 0}
log+ streams-target orders m1 {0: [0-1]} standby {1: [0]}
log+ streams-target orders epoch=2 at 00:00.000
log+ streams-assignment orders m1 2/0 STABLE {0: [0@2]} pending {0: [1@2]}
"""

from typing import Any

from coterie.conformance.consumer_group_lines import at_text, owned_map
from coterie.conversation.names import Names
from coterie.conversation.streams_groups import endpoint_text, roles_text, tags_text
from coterie.conversation.streams_topology import topology_text
from coterie.conversation.syntax import duration_text, format_map, quote
from coterie.protocol.messages.streams_group_records import (
    CurrentTasks,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from coterie.protocol.wire import Message

# The words for the records of each type.
STREAMS_KINDS: dict[type[Message], str] = {
    StreamsGroupMetadataKey: "streams-epoch",
    StreamsGroupMemberMetadataKey: "streams-member",
    StreamsGroupTargetAssignmentMetadataKey: "streams-target",
    StreamsGroupTargetAssignmentMemberKey: "streams-target",
    StreamsGroupCurrentMemberAssignmentKey: "streams-assignment",
    StreamsGroupTopologyKey: "streams-topology",
}
# Kafka's numbers of the states of a member.
_STATES = {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}


def streams_value_text(value: Any, start_ms: int, names: Names) -> str:
    """Return the text of the value of a record of a streams group."""
    if isinstance(value, StreamsGroupMetadataValue):
        return _epoch_text(value)
    if isinstance(value, StreamsGroupMemberMetadataValue):
        return _member_text(value)
    if isinstance(value, StreamsGroupTopologyValue):
        return topology_text(value, names)
    if isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
        return f"epoch={value.assignment_epoch}{at_text(value.assignment_timestamp, start_ms)}"
    if isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
        return _current_text(value)
    return roles_text(value)


def _epoch_text(value: StreamsGroupMetadataValue) -> str:
    text = f"{value.epoch} validated={value.validated_topology_epoch}"
    configs = value.last_assignment_configs
    if configs is not None:
        text += f" {format_map([(each.key, each.value) for each in configs])}"
    return text


def _member_text(value: StreamsGroupMemberMetadataValue) -> str:
    parts = []
    for name, text in (("instance", value.instance_id), ("rack", value.rack_id)):
        if text is not None:
            parts.append(f"{name}={quote(text)}")
    parts.append(f"client={value.client_id} timeout={duration_text(value.rebalance_timeout_ms)}")
    parts.append(f"process={quote(value.process_id)}")
    if value.topology_epoch:
        parts.append(f"topology={value.topology_epoch}")
    if value.user_endpoint is not None:
        parts.append(f"endpoint={quote(endpoint_text(value.user_endpoint))}")
    if value.client_tags:
        parts.append(f"tags={tags_text(value.client_tags)}")
    return " ".join(parts)


def _current_text(value: StreamsGroupCurrentMemberAssignmentValue) -> str:
    state = _STATES.get(value.state, str(value.state))
    parts = [f"{value.member_epoch}/{value.previous_member_epoch} {state}"]
    parts.append(_owned_text(value.active_tasks))
    for word, tasks in (
        ("standby", value.standby_tasks),
        ("warmup", value.warmup_tasks),
        ("pending", value.active_tasks_pending_revocation),
        ("pending standby", value.standby_tasks_pending_revocation),
        ("pending warmup", value.warmup_tasks_pending_revocation),
    ):
        if tasks:
            parts.append(f"{word} {_owned_text(tasks)}")
    return " ".join(parts)


def _owned_text(tasks: list[CurrentTasks]) -> str:
    return owned_map(
        (each.subtopology_id, each.partitions, each.assignment_epochs) for each in tasks
    )
