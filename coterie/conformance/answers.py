"""Response messages to lines, one function an API.

What says nothing is left out, so that what remains is worth reading: `ok` for no error; of a
refused JoinGroup only the error and the member id, unless a field is not at its value for errors; a
subscription only where it is not the usual one. From the version on that carries it, the protocol
type stands in front of the protocol: `protocol=consumer/range`.
"""

from collections.abc import Callable
from typing import Any

from coterie.conformance.names import Names
from coterie.conformance.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_text,
    subscription_text,
)
from coterie.conformance.words import listed, mapped, quoted
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
from coterie.protocol.wire import Message

# First versions that carry what the names say (spec section 1.2).
_JOIN_TYPE_SINCE = 7
_SYNC_TYPE_SINCE = 5
_LEAVES_MANY_SINCE = 3
_FETCHES_MANY_SINCE = 8
_TOPIC_IDS_SINCE = 10
_LIST_STATE_SINCE = 4
_LIST_TYPE_SINCE = 5


def answer_lines(client: str, version: int, message: Message, names: Names) -> list[str]:
    """An answer as a client sees it: one line, or a heading and indented lines."""
    first, *more = _FORMATS[type(message)](message, version, names)
    api = type(message).__name__.removesuffix("Response")
    return [
        f"{client}< {api} v{version} {first}".rstrip(),
        *(f"{client}<   {line}" for line in more),
    ]


def error_text(code: int) -> str:
    """`ok`, or the error's name."""
    if code == ErrorCode.NONE:
        return "ok"
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _outcome(code: int) -> str:
    return "ok" if code == ErrorCode.NONE else f"error={error_text(code)}"


def _protocol(protocol_type: str | None, name: str | None, *, typed: bool) -> str:
    shown = quoted(name) if name is not None else "null"
    if not typed:
        return shown
    return f"{quoted(protocol_type) if protocol_type is not None else 'null'}/{shown}"


def _join(answer: JoinGroupResponse, version: int, names: Names) -> list[str]:
    typed = version >= _JOIN_TYPE_SINCE
    parts = []
    if answer.error_code:
        parts.append(f"error={error_text(answer.error_code)}")
    if not answer.error_code or answer.generation_id != -1:
        parts.append(f"generation={answer.generation_id}")
    # A null protocol name is written as "" before version 7, so there it says nothing.
    nothing = None if typed else ""
    if not answer.error_code or (answer.protocol_type, answer.protocol_name) != (None, nothing):
        shown = _protocol(answer.protocol_type, answer.protocol_name, typed=typed)
        parts.append(f"protocol={shown}")
    if not answer.error_code or answer.leader:
        parts.append(f"leader={quoted(names.member_text(answer.leader))}")
    parts.append(f"member={quoted(names.member_text(answer.member_id))}")
    if answer.members:
        members = [
            _with_subscription(names.member_text(each.member_id), each.group_instance_id, each)
            for each in answer.members
        ]
        parts.append(f"members={listed(members)}")
    if answer.skip_assignment:
        parts.append("skip_assignment=true")
    return [" ".join(parts)]


def _with_subscription(member: str, instance: str | None, each: Any) -> str:
    text = subscription_text(each.metadata)
    shown = member if instance is None else f"{member}/{instance}"
    return shown if text == DEFAULT_SUBSCRIPTION else f"{shown}: {text}"


def _sync(answer: SyncGroupResponse, version: int, _names: Names) -> list[str]:
    typed = version >= _SYNC_TYPE_SINCE
    parts = []
    if answer.error_code:
        parts.append(f"error={error_text(answer.error_code)}")
    said = (answer.protocol_type, answer.protocol_name)
    if typed and (not answer.error_code or said != (None, None)):
        parts.append(f"protocol={_protocol(*said, typed=True)}")
    if not answer.error_code or answer.assignment:
        parts.append(f"assignment={_bracketed(assignment_text(answer.assignment))}")
    return [" ".join(parts)]


def _bracketed(text: str) -> str:
    return text if text == '""' else f"[{text}]"


def _heartbeat(answer: HeartbeatResponse, _version: int, _names: Names) -> list[str]:
    return [_outcome(answer.error_code)]


def _leave(answer: LeaveGroupResponse, version: int, names: Names) -> list[str]:
    if version < _LEAVES_MANY_SINCE or answer.error_code:
        return [_outcome(answer.error_code)]
    entries = []
    for each in answer.members:
        member = quoted(names.member_text(each.member_id)) if each.member_id else ""
        instance = "" if each.group_instance_id is None else f"/{each.group_instance_id}"
        entries.append((member + instance or '""', error_text(each.error_code)))
    return [mapped(entries)]


def _commit(answer: OffsetCommitResponse, version: int, names: Names) -> list[str]:
    entries = [
        (f"{_topic(topic, version, names)}-{each.partition_index}", error_text(each.error_code))
        for topic in answer.topics
        for each in topic.partitions
    ]
    return [mapped(entries)]


def _topic(topic: Any, version: int, names: Names) -> str:
    if version >= _TOPIC_IDS_SINCE:
        return names.topic_name(topic.topic_id)
    return str(topic.name)


def _fetch(answer: OffsetFetchResponse, version: int, names: Names) -> list[str]:
    if version < _FETCHES_MANY_SINCE:
        error = f"error={error_text(answer.error_code)}" if answer.error_code else ""
        offsets = _offsets(answer.topics, version, names)
        return [f"{error} {offsets}".strip() if answer.topics or not error else error]
    groups = []
    for group in answer.groups:
        name = quoted(names.group_text(group.group_id))
        text = _offsets(group.topics, version, names)
        groups.append(f"{name}={error_text(group.error_code) if group.error_code else text}")
    return [" ".join(groups)]


def _offsets(topics: list[OffsetFetchResponseTopic], version: int, names: Names) -> str:
    return mapped(
        [
            (f"{_topic(topic, version, names)}-{each.partition_index}", _offset(each))
            for topic in topics
            for each in topic.partitions
        ]
    )


def _offset(each: OffsetFetchResponsePartition) -> str:
    text = str(each.committed_offset)
    if each.committed_leader_epoch != -1:
        text += f" epoch {each.committed_leader_epoch}"
    if each.metadata:
        text += f' "{each.metadata}"'
    return text if not each.error_code else f"{text} {error_text(each.error_code)}"


def _delete_offsets(answer: OffsetDeleteResponse, _version: int, _names: Names) -> list[str]:
    if answer.error_code:
        return [_outcome(answer.error_code)]
    entries = [
        (f"{topic.name}-{each.partition_index}", error_text(each.error_code))
        for topic in answer.topics
        for each in topic.partitions
    ]
    return [mapped(entries)]


def _list(answer: ListGroupsResponse, version: int, names: Names) -> list[str]:
    lines = [_outcome(answer.error_code) if answer.error_code else f"groups={len(answer.groups)}"]
    for each in sorted(answer.groups, key=lambda group: names.group_text(group.group_id)):
        line = f"{quoted(names.group_text(each.group_id))}"
        line += f" protocol_type={quoted(each.protocol_type)}"
        if version >= _LIST_STATE_SINCE:
            line += f" state={each.group_state}"
        if version >= _LIST_TYPE_SINCE:
            line += f" type={each.group_type}"
        lines.append(line)
    return lines


def _describe(answer: DescribeGroupsResponse, _version: int, names: Names) -> list[str]:
    lines = [""]
    for group in answer.groups:
        lines.append(_described(group, names))
        lines += [f"  {_described_member(each, names)}" for each in group.members]
    return lines


def _described(group: DescribeGroupsResponseGroup, names: Names) -> str:
    shown = _protocol(group.protocol_type, group.protocol_data, typed=True)
    line = f"{quoted(names.group_text(group.group_id))} {group.group_state}".rstrip()
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
    parts.append(f"client={each.client_id} host={each.client_host}")
    parts.append(f"subscription={_bracketed(subscription_text(each.member_metadata))}")
    parts.append(f"assignment={_bracketed(assignment_text(each.member_assignment))}")
    return " ".join(parts)


def _delete_groups(answer: DeleteGroupsResponse, _version: int, names: Names) -> list[str]:
    entries = []
    for each in answer.results:
        text = error_text(each.error_code)
        if each.error_message is not None:
            text += f' "{names.message_text(each.error_message)}"'
        entries.append((quoted(names.group_text(each.group_id)), text))
    return [mapped(sorted(entries))]


_FORMATS: dict[type, Callable[[Any, int, Names], list[str]]] = {
    JoinGroupResponse: _join,
    SyncGroupResponse: _sync,
    HeartbeatResponse: _heartbeat,
    LeaveGroupResponse: _leave,
    OffsetCommitResponse: _commit,
    OffsetFetchResponse: _fetch,
    OffsetDeleteResponse: _delete_offsets,
    ListGroupsResponse: _list,
    DescribeGroupsResponse: _describe,
    DeleteGroupsResponse: _delete_groups,
}
