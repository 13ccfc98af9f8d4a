"""Responses of consumer groups (KIP-848) as text.

    ConsumerGroupHeartbeat v1 member=m1 epoch=2 interval=5s assigned={foo: [0-5]}
    ConsumerGroupHeartbeat v1 error=GROUP_ID_NOT_FOUND "Consumer group orders not found."

Without `assigned` the assignment is null: it has not changed. A refusal shows another field only if
it differs from what other refusals have.
"""

from collections.abc import Callable
from typing import Any

from coterie.conversation.consumer_group_requests import assignment_map
from coterie.conversation.names import Names
from coterie.conversation.structures import error_text
from coterie.conversation.syntax import duration_text, format_list, quote
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseMember,
)
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

# The first version that says which protocol a member speaks.
_MEMBER_TYPE_SINCE = 1
_MEMBER_TYPES = {0: "classic", 1: "consumer"}


def heartbeat_lines(response: Any, _version: int, names: Names) -> list[str]:
    """Return the line of a response to a heartbeat, of any type of groups that has them."""
    parts = error_parts(response, names)
    refused = bool(parts)
    if response.member_id is not None:
        parts.append(f"member={quote(names.member_text(response.member_id))}")
    if response.member_epoch or not refused:
        parts.append(f"epoch={response.member_epoch}")
    if response.heartbeat_interval_ms or not refused:
        parts.append(f"interval={duration_text(response.heartbeat_interval_ms)}")
    if response.assignment is not None:
        topics = response.assignment.topic_partitions
        parts.append(f"assigned={assignment_map(topics, names)}")
    return [" ".join(parts)]


def error_parts(response: Any, names: Names) -> list[str]:
    """Return the error and its message; nothing without an error."""
    parts = []
    if response.error_code:
        parts.append(f"error={error_text(response.error_code)}")
    if response.error_message is not None:
        parts.append(f'"{names.message_text(response.error_message)}"')
    return parts


def _describe(response: ConsumerGroupDescribeResponse, version: int, names: Names) -> list[str]:
    lines = [""]
    for group in response.groups:
        lines.append(described_group(group, names))
        lines += [f"  {_described_member(each, version, names)}" for each in group.members]
    return lines


def described_group(group: Any, names: Names) -> str:
    """Return the line of a described group, without its members."""
    parts = [quote(names.group_text(group.group_id))]
    if group.group_state:
        parts.append(group.group_state)
    errors = error_parts(group, names)
    parts += errors
    epochs = (group.group_epoch, group.assignment_epoch, group.assignor_name)
    if not errors or epochs != (0, 0, ""):
        parts.append(f"epoch={epochs[0]} assignment_epoch={epochs[1]} assignor={quote(epochs[2])}")
    if group.authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
        parts.append(f"operations={group.authorized_operations:#x}")
    return " ".join(parts)


def _described_member(each: ConsumerGroupDescribeResponseMember, version: int, names: Names) -> str:
    parts = [quote(names.member_text(each.member_id))]
    for name, value in (("instance", each.instance_id), ("rack", each.rack_id)):
        if value is not None:
            parts.append(f"{name}={quote(value)}")
    parts.append(f"epoch={each.member_epoch} client={each.client_id}")
    parts.append(f"host={names.host_text(each.client_host)}")
    topics = sorted(names.topic_text(topic) for topic in each.subscribed_topic_names)
    parts.append(f"topics={format_list(topics)}")
    regex = each.subscribed_topic_regex
    if regex != "":
        parts.append(f"regex={'null' if regex is None else quote(names.topic_text(regex))}")
    parts.append(f"assigned={assignment_map(each.assignment.topic_partitions, names)}")
    parts.append(f"target={assignment_map(each.target_assignment.topic_partitions, names)}")
    if version >= _MEMBER_TYPE_SINCE:
        parts.append(f"type={_MEMBER_TYPES.get(each.member_type, each.member_type)}")
    return " ".join(parts)


FORMATS: dict[type, Callable[[Any, int, Names], list[str]]] = {
    ConsumerGroupHeartbeatResponse: heartbeat_lines,
    ConsumerGroupDescribeResponse: _describe,
}
