"""Formats response messages as lines of a transcript, one function per API.

The lines leave out what carries no information: `ok` stands for no error; a refused JoinGroup shows
the error and the member id, and another field only if it differs from its value in other refusals;
a subscription is shown only if it is not the default. In versions that have a protocol type it
precedes the protocol: `protocol=consumer/range`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.conversation.consumer_group_responses import FORMATS as CONSUMER_GROUP_FORMATS
from coterie.conversation.names import Names
from coterie.conversation.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_text,
    subscription_text,
)
from coterie.conversation.requests import member_text, partitions_of
from coterie.conversation.share_groups import FORMATS as SHARE_GROUP_FORMATS
from coterie.conversation.streams_groups import FORMATS as STREAMS_GROUP_FORMATS
from coterie.conversation.structures import error_text, tree_of, tree_text
from coterie.conversation.syntax import format_list, format_map, quote
from coterie.conversation.versions import (
    FETCH_GROUPS_SINCE,
    JOIN_PROTOCOL_TYPE_SINCE,
    LEAVE_MEMBERS_SINCE,
    LIST_STATE_SINCE,
    LIST_TYPE_SINCE,
    SYNC_PROTOCOL_SINCE,
)
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.heartbeat import HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsResponse
from coterie.protocol.messages.offset_commit import OffsetCommitResponse
from coterie.protocol.messages.offset_delete import OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupResponse
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from coterie.protocol.wire import Message


def response_lines(client: str, version: int, message: Message, names: Names) -> list[str]:
    """Return the lines of a response: one line, or a heading and indented lines."""
    api = type(message).__name__.removesuffix("Response")
    if type(message) not in _FORMATS:
        fields = tree_of(message, version, names)
        texts = [f"{name}={tree_text(value)}" for name, value in fields.items()]
        return [f"{client}< {api} v{version} {' '.join(texts)}".rstrip()]
    first, *more = _FORMATS[type(message)](message, version, names)
    return [
        f"{client}< {api} v{version} {first}".rstrip(),
        *(f"{client}<   {line}" for line in more),
    ]


def _outcome(code: int) -> str:
    return "ok" if code == ErrorCode.NONE else f"error={error_text(code)}"


def _protocol(protocol_type: str | None, name: str | None, *, has_type: bool) -> str:
    shown = quote(name) if name is not None else "null"
    if not has_type:
        return shown
    return f"{quote(protocol_type) if protocol_type is not None else 'null'}/{shown}"


def _join(response: JoinGroupResponse, version: int, names: Names) -> list[str]:
    has_type = version >= JOIN_PROTOCOL_TYPE_SINCE
    parts = []
    if response.error_code:
        parts.append(f"error={error_text(response.error_code)}")
    if not response.error_code or response.generation_id != -1:
        parts.append(f"generation={response.generation_id}")
    # Before version 7 a null protocol name is encoded as "".
    absent = (None, None if has_type else "")
    protocol = (response.protocol_type, response.protocol_name)
    if not response.error_code or protocol != absent:
        parts.append(f"protocol={_protocol(*protocol, has_type=has_type)}")
    if not response.error_code or response.leader:
        parts.append(f"leader={quote(names.member_text(response.leader))}")
    parts.append(f"member={quote(names.member_text(response.member_id))}")
    if response.members:
        members = [
            _with_subscription(
                names.member_text(each.member_id), each.group_instance_id, each, names
            )
            for each in response.members
        ]
        parts.append(f"members={format_list(members)}")
    if response.skip_assignment:
        parts.append("skip_assignment=true")
    return [" ".join(parts)]


def _with_subscription(member: str, instance: str | None, each: Any, names: Names) -> str:
    text = subscription_text(each.metadata, names)
    shown = member if instance is None else f"{member}/{instance}"
    return shown if text == DEFAULT_SUBSCRIPTION else f"{shown}: {text}"


def _sync(response: SyncGroupResponse, version: int, names: Names) -> list[str]:
    has_type = version >= SYNC_PROTOCOL_SINCE
    parts = []
    if response.error_code:
        parts.append(f"error={error_text(response.error_code)}")
    protocol = (response.protocol_type, response.protocol_name)
    if has_type and (not response.error_code or protocol != (None, None)):
        parts.append(f"protocol={_protocol(*protocol, has_type=True)}")
    if not response.error_code or response.assignment:
        parts.append(f"assignment={_bracketed(assignment_text(response.assignment, names))}")
    return [" ".join(parts)]


def _bracketed(text: str) -> str:
    return text if text == '""' else f"[{text}]"


def _heartbeat(response: HeartbeatResponse, _version: int, _names: Names) -> list[str]:
    return [_outcome(response.error_code)]


def _leave(response: LeaveGroupResponse, version: int, names: Names) -> list[str]:
    if version < LEAVE_MEMBERS_SINCE or response.error_code:
        return [_outcome(response.error_code)]
    entries = [(member_text(each, names), error_text(each.error_code)) for each in response.members]
    return [format_map(entries)]


def _commit(
    response: OffsetCommitResponse | TxnOffsetCommitResponse, version: int, names: Names
) -> list[str]:
    return [_errors(response.topics, version, names)]


def _errors(topics: Iterable[Any], version: int, names: Names) -> str:
    partitions = partitions_of(topics, version, names)
    return format_map([(text, error_text(each.error_code)) for text, each in partitions])


def _fetch(response: OffsetFetchResponse, version: int, names: Names) -> list[str]:
    if version < FETCH_GROUPS_SINCE:
        error = f"error={error_text(response.error_code)}" if response.error_code else ""
        offsets = _offsets(response.topics, version, names)
        return [f"{error} {offsets}".strip() if response.topics or not error else error]
    groups = []
    for group in response.groups:
        name = quote(names.group_text(group.group_id))
        text = _offsets(group.topics, version, names)
        groups.append(f"{name}={error_text(group.error_code) if group.error_code else text}")
    return [" ".join(groups)]


def _offsets(topics: list[OffsetFetchResponseTopic], version: int, names: Names) -> str:
    return format_map(
        [(text, _offset(each)) for text, each in partitions_of(topics, version, names)]
    )


def _offset(each: OffsetFetchResponsePartition) -> str:
    text = str(each.committed_offset)
    if each.committed_leader_epoch != -1:
        text += f" epoch {each.committed_leader_epoch}"
    if each.metadata:
        text += f' "{each.metadata}"'
    return text if not each.error_code else f"{text} {error_text(each.error_code)}"


def _delete_offsets(response: OffsetDeleteResponse, version: int, names: Names) -> list[str]:
    if response.error_code:
        return [_outcome(response.error_code)]
    return [_errors(response.topics, version, names)]


def _list(response: ListGroupsResponse, version: int, names: Names) -> list[str]:
    lines = [
        _outcome(response.error_code) if response.error_code else f"groups={len(response.groups)}"
    ]
    for each in sorted(response.groups, key=lambda group: names.group_text(group.group_id)):
        line = f"{quote(names.group_text(each.group_id))}"
        line += f" protocol_type={quote(each.protocol_type)}"
        if version >= LIST_STATE_SINCE:
            line += f" state={each.group_state}"
        if version >= LIST_TYPE_SINCE:
            line += f" type={each.group_type}"
        lines.append(line)
    return lines


def _describe(response: DescribeGroupsResponse, _version: int, names: Names) -> list[str]:
    lines = [""]
    for group in response.groups:
        lines.append(_described(group, names))
        lines += [f"  {_described_member(each, names)}" for each in group.members]
    return lines


def _described(group: DescribeGroupsResponseGroup, names: Names) -> str:
    shown = _protocol(group.protocol_type, group.protocol_data, has_type=True)
    line = f"{quote(names.group_text(group.group_id))} {group.group_state}".rstrip()
    if group.error_code:
        line += f" error={error_text(group.error_code)}"
    if group.error_message is not None:
        line += f' "{names.message_text(group.error_message)}"'
    if not group.error_code or shown != '""/""':
        line += f" protocol={shown}"
    if group.authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
        line += f" operations={group.authorized_operations:#x}"
    return line


def _described_member(each: DescribeGroupsResponseMember, names: Names) -> str:
    parts = [names.member_text(each.member_id)]
    if each.group_instance_id is not None:
        parts.append(f"instance={each.group_instance_id}")
    parts.append(f"client={each.client_id} host={names.host_text(each.client_host)}")
    parts.append(f"subscription={_bracketed(subscription_text(each.member_metadata, names))}")
    parts.append(f"assignment={_bracketed(assignment_text(each.member_assignment, names))}")
    return " ".join(parts)


def _delete_groups(response: DeleteGroupsResponse, _version: int, names: Names) -> list[str]:
    entries = []
    for each in response.results:
        text = error_text(each.error_code)
        if each.error_message is not None:
            text += f' "{names.message_text(each.error_message)}"'
        entries.append((quote(names.group_text(each.group_id)), text))
    return [format_map(sorted(entries))]


_FORMATS: dict[type, Callable[[Any, int, Names], list[str]]] = {
    JoinGroupResponse: _join,
    SyncGroupResponse: _sync,
    HeartbeatResponse: _heartbeat,
    LeaveGroupResponse: _leave,
    OffsetCommitResponse: _commit,
    TxnOffsetCommitResponse: _commit,
    OffsetFetchResponse: _fetch,
    OffsetDeleteResponse: _delete_offsets,
    ListGroupsResponse: _list,
    DescribeGroupsResponse: _describe,
    DeleteGroupsResponse: _delete_groups,
    **CONSUMER_GROUP_FORMATS,
    **SHARE_GROUP_FORMATS,
    **STREAMS_GROUP_FORMATS,
}


def is_structure(message: Message) -> bool:
    """Return whether the response is shown by the fields of its declaration."""
    return type(message) not in _FORMATS
