"""Requests of the group coordinator as the arguments of a transcript's command.

The reverse of coterie/conformance/requests.py: `build_request` makes the same message of the text.
"""

from collections.abc import Callable
from typing import Any

from coterie.conformance.names import Names
from coterie.conformance.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_text,
    subscription_text,
)
from coterie.conformance.syntax import format_list, format_map, quote
from coterie.conformance.versions import (
    FETCH_GROUPS_SINCE,
    JOIN_REBALANCE_TIMEOUT_SINCE,
    LEAVE_MEMBERS_SINCE,
    SYNC_PROTOCOL_SINCE,
    TOPIC_IDS_SINCE,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.wire import Message

_UNITS_MS = ((3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def request_arguments(request: Message, version: int, names: Names) -> str | None:
    """Return the text behind the version; None if transcripts have no notation for the API."""
    form = _FORMS.get(type(request))
    return None if form is None else " ".join(form(request, version, names))


def duration_text(duration_ms: int) -> str:
    """Return a duration as transcripts write it: `10s`, `1m`, `2999ms`, `0` or `-1`."""
    if duration_ms in (0, -1):
        return str(duration_ms)
    for unit_ms, unit in _UNITS_MS:
        if duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms}{unit}"
    return f"{duration_ms}ms"


def _group(request: Any, names: Names) -> str:
    return f"group={quote(names.group_text(request.group_id))}"


def _member(request: Any, names: Names) -> str:
    return f"member={quote(names.member_text(request.member_id))}"


def _instance(request: Any) -> list[str]:
    instance = request.group_instance_id
    return [] if instance is None else [f"instance={quote(instance)}"]


def _reason(reason: str | None) -> list[str]:
    # Quotes and the end of a line cannot be written in a transcript.
    return [] if reason is None else [f'reason="{_plain(reason)}"']


def _plain(text: str) -> str:
    return " ".join(text.replace('"', "'").split())


def _join(request: JoinGroupRequest, version: int, names: Names) -> list[str]:
    parts = [_group(request, names), _member(request, names), *_instance(request)]
    parts.append(f"session={duration_text(request.session_timeout_ms)}")
    if version >= JOIN_REBALANCE_TIMEOUT_SINCE:
        parts.append(f"rebalance={duration_text(request.rebalance_timeout_ms)}")
    if request.protocol_type != "consumer":
        parts.append(f"type={quote(request.protocol_type)}")
    protocols = []
    for each in request.protocols:
        text = subscription_text(each.metadata)
        shown = each.name if text == DEFAULT_SUBSCRIPTION else f"{each.name}: {text}"
        protocols.append(shown)
    return [*parts, f"protocols={format_list(protocols)}", *_reason(request.reason)]


def _sync(request: SyncGroupRequest, version: int, names: Names) -> list[str]:
    parts = [_group(request, names), _member(request, names), *_instance(request)]
    parts.append(f"generation={request.generation_id}")
    if version >= SYNC_PROTOCOL_SINCE:
        if request.protocol_type != "consumer":
            parts.append(f"type={_nullable(request.protocol_type)}")
        parts.append(f"protocol={_nullable(request.protocol_name)}")
    if request.assignments:
        entries = [
            (quote(names.member_text(each.member_id)), assignment_text(each.assignment))
            for each in request.assignments
        ]
        parts.append(f"assignment={format_map(entries)}")
    return parts


def _nullable(text: str | None) -> str:
    return "null" if text is None else quote(text)


def _heartbeat(request: HeartbeatRequest, _version: int, names: Names) -> list[str]:
    parts = [_group(request, names), _member(request, names), *_instance(request)]
    return [*parts, f"generation={request.generation_id}"]


def _leave(request: LeaveGroupRequest, version: int, names: Names) -> list[str]:
    if version < LEAVE_MEMBERS_SINCE:
        return [_group(request, names), _member(request, names)]
    members = []
    for each in request.members:
        member = quote(names.member_text(each.member_id)) if each.member_id else ""
        instance = "" if each.group_instance_id is None else f"/{each.group_instance_id}"
        members.append(member + instance or '""')
    reason = request.members[0].reason if request.members else None
    return [_group(request, names), f"members={format_list(members)}", *_reason(reason)]


def _commit(request: OffsetCommitRequest, version: int, names: Names) -> list[str]:
    parts = [_group(request, names), _member(request, names), *_instance(request)]
    parts.append(f"generation={request.generation_id_or_member_epoch}")
    if request.retention_time_ms != -1:
        parts.append(f"retention={duration_text(request.retention_time_ms)}")
    return [*parts, _offsets(request, version, names)]


def _txn_commit(request: TxnOffsetCommitRequest, version: int, names: Names) -> list[str]:
    return [
        f"transaction={quote(names.own_text(request.transactional_id))}",
        _group(request, names),
        f"producer={request.producer_id}",
        f"epoch={request.producer_epoch}",
        f"generation={request.generation_id}",
        _member(request, names),
        *_instance(request),
        _offsets(request, version, names),
    ]


def _offsets(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int, names: Names
) -> str:
    entries = []
    for topic in request.topics:
        for each in topic.partitions:
            text = str(each.committed_offset)
            if each.committed_leader_epoch != -1:
                text += f" epoch {each.committed_leader_epoch}"
            if each.committed_metadata is not None:
                text += f' "{_plain(each.committed_metadata)}"'
            entries.append((f"{_topic(topic, version, names)}-{each.partition_index}", text))
    return f"offsets={format_map(entries)}"


def _topic(topic: Any, version: int, names: Names) -> str:
    return names.topic_name(topic.topic_id) if version >= TOPIC_IDS_SINCE else str(topic.name)


def _partitions(topics: Any, version: int, names: Names) -> list[str]:
    return [
        f"{_topic(topic, version, names)}-{index}"
        for topic in topics
        for index in topic.partition_indexes
    ]


def _fetch(request: OffsetFetchRequest, version: int, names: Names) -> list[str]:
    stable = ["stable=true"] if request.require_stable else []
    if version >= FETCH_GROUPS_SINCE:
        groups = []
        for group in request.groups:
            topics = group.topics
            shown = "all" if topics is None else " ".join(_partitions(topics, version, names))
            groups.append((quote(names.group_text(group.group_id)), shown or "[]"))
        return [f"groups={format_map(groups)}", *stable]
    parts = [_group(request, names)]
    if request.topics is not None:
        parts.append(f"partitions={format_list(_partitions(request.topics, version, names))}")
    return [*parts, *stable]


def _delete_offsets(request: OffsetDeleteRequest, _version: int, names: Names) -> list[str]:
    partitions = [
        f"{topic.name}-{each.partition_index}"
        for topic in request.topics
        for each in topic.partitions
    ]
    return [_group(request, names), f"partitions={format_list(partitions)}"]


def _list(request: ListGroupsRequest, _version: int, _names: Names) -> list[str]:
    parts = []
    if request.states_filter:
        parts.append(f"states={format_list([quote(each) for each in request.states_filter])}")
    if request.types_filter:
        parts.append(f"types={format_list([quote(each) for each in request.types_filter])}")
    return parts


def _describe(request: DescribeGroupsRequest, _version: int, names: Names) -> list[str]:
    groups = format_list([quote(names.group_text(each)) for each in request.groups])
    operations = ["operations=true"] if request.include_authorized_operations else []
    return [f"groups={groups}", *operations]


def _delete_groups(request: DeleteGroupsRequest, _version: int, names: Names) -> list[str]:
    return [f"groups={format_list([quote(names.group_text(n)) for n in request.groups_names])}"]


_FORMS: dict[type[Message], Callable[[Any, int, Names], list[str]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _txn_commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: _delete_offsets,
    ListGroupsRequest: _list,
    DescribeGroupsRequest: _describe,
    DeleteGroupsRequest: _delete_groups,
}
