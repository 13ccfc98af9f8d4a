"""Requests and responses of share groups (KIP-932) as text.

    ShareGroupHeartbeat v1 group=orders member=m1 epoch=0 topics=[foo]
    ShareGroupHeartbeat v1 member=m1 epoch=2 interval=5s assigned={foo: [0-5]}

They look like those of consumer groups.
"""

from collections.abc import Callable
from typing import Any

from coterie.conversation.arguments import (
    FLAG,
    GROUP,
    INTEGER,
    MEMBER,
    NULLABLE,
    Argument,
    Shown,
    list_kind,
    optional_kind,
)
from coterie.conversation.consumer_group_requests import TOPIC, assignment_map
from coterie.conversation.consumer_group_responses import described_group, heartbeat_lines
from coterie.conversation.names import Names
from coterie.conversation.syntax import format_list, quote
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseMember,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.wire import Message

_IF_SET = Shown.IF_SET

TABLES: dict[type[Message], tuple[Argument, ...]] = {
    ShareGroupHeartbeatRequest: (
        Argument("group", "group_id", GROUP, "orders"),
        Argument("member", "member_id", MEMBER, '""'),
        Argument("epoch", "member_epoch", INTEGER, "0"),
        Argument("rack", "rack_id", NULLABLE, "null", _IF_SET),
        Argument(
            "topics", "subscribed_topic_names", optional_kind(list_kind(TOPIC)), "null", _IF_SET
        ),
    ),
    ShareGroupDescribeRequest: (
        Argument("groups", "group_ids", list_kind(GROUP), "[orders]"),
        Argument("operations", "include_authorized_operations", FLAG, "false", _IF_SET),
    ),
}


def _describe(response: ShareGroupDescribeResponse, _version: int, names: Names) -> list[str]:
    lines = [""]
    for group in response.groups:
        lines.append(described_group(group, names))
        lines += [f"  {_described_member(each, names)}" for each in group.members]
    return lines


def _described_member(each: ShareGroupDescribeResponseMember, names: Names) -> str:
    parts = [quote(names.member_text(each.member_id))]
    if each.rack_id is not None:
        parts.append(f"rack={quote(each.rack_id)}")
    parts.append(f"epoch={each.member_epoch} client={each.client_id}")
    parts.append(f"host={names.host_text(each.client_host)}")
    topics = sorted(names.topic_text(topic) for topic in each.subscribed_topic_names)
    parts.append(f"topics={format_list(topics)}")
    parts.append(f"assigned={assignment_map(each.assignment.topic_partitions, names)}")
    return " ".join(parts)


FORMATS: dict[type, Callable[[Any, int, Names], list[str]]] = {
    ShareGroupHeartbeatResponse: heartbeat_lines,
    ShareGroupDescribeResponse: _describe,
}
