"""Builds request messages from the request lines of transcripts, one function per API.

A transcript states the fields that matter. The others have the same defaults in every file: group
`orders`, protocol type `consumer`, protocol `range` with a subscription to `sales`, session timeout
10 s, rebalance timeout 60 s.
"""

from collections.abc import Callable

from coterie.conformance.names import Names
from coterie.conformance.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_bytes,
    subscription_bytes,
)
from coterie.conformance.structures import build_structure
from coterie.conformance.syntax import (
    Arguments,
    group_by_topic,
    parse_arguments,
    parse_duration_ms,
    parse_list,
    parse_map,
    parse_partition,
    unquote,
)
from coterie.conformance.transcript import RequestLine, TranscriptError
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
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.protocol.wire import Message


def build_request(line: RequestLine, names: Names) -> Message:
    """Return the request message of a line.

    Args:
        line: the API, the version to send it in, and the text of its fields.
        names: the names of the transcript.

    Raises:
        TranscriptError: unknown API or field, or a malformed value.
    """
    build = _BUILDERS.get(line.api)
    if build is None:
        return build_structure(line, names)
    arguments = parse_arguments(line.arguments)
    # Options of the frame, which are not part of the message.
    arguments.named.pop("wire", None)
    if arguments.positional:
        raise TranscriptError(f"{' '.join(arguments.positional)!r}: fields are name=value")
    message = build(arguments, line.version, names)
    arguments.reject_unknown()
    return message


def _group(arguments: Arguments, names: Names) -> str:
    return names.group(arguments.take("group", "orders"))


def _nullable(arguments: Arguments, name: str) -> str | None:
    text = arguments.named.pop(name, None)
    return None if text in (None, "null") else unquote(str(text))


def _join(arguments: Arguments, version: int, names: Names) -> JoinGroupRequest:
    rebalance = "60s" if version >= JOIN_REBALANCE_TIMEOUT_SINCE else "-1"
    protocols = []
    for item in arguments.take_list("protocols", "[range]"):
        name, _, metadata = item.partition(":")
        metadata = metadata.strip() or DEFAULT_SUBSCRIPTION
        protocols.append(
            JoinGroupRequestProtocol(
                name=name.strip(), metadata=subscription_bytes(metadata, names)
            )
        )
    return JoinGroupRequest(
        group_id=_group(arguments, names),
        session_timeout_ms=parse_duration_ms(arguments.take("session", "10s")),
        rebalance_timeout_ms=parse_duration_ms(arguments.take("rebalance", rebalance)),
        member_id=names.member(arguments.take("member", "")),
        group_instance_id=_nullable(arguments, "instance"),
        protocol_type=arguments.take("type", "consumer"),
        protocols=protocols,
        reason=_nullable(arguments, "reason"),
    )


def _sync(arguments: Arguments, version: int, names: Names) -> SyncGroupRequest:
    has_protocol = version >= SYNC_PROTOCOL_SINCE
    arguments.named.setdefault("type", "consumer" if has_protocol else "null")
    arguments.named.setdefault("protocol", "range" if has_protocol else "null")
    return SyncGroupRequest(
        group_id=_group(arguments, names),
        generation_id=int(arguments.take("generation", "-1")),
        member_id=names.member(arguments.take("member", "")),
        group_instance_id=_nullable(arguments, "instance"),
        protocol_type=_nullable(arguments, "type"),
        protocol_name=_nullable(arguments, "protocol"),
        assignments=[
            SyncGroupRequestAssignment(
                member_id=names.member(member), assignment=assignment_bytes(text, names)
            )
            for member, text in arguments.take_map("assignment").items()
        ],
    )


def _heartbeat(arguments: Arguments, _version: int, names: Names) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=_group(arguments, names),
        generation_id=int(arguments.take("generation", "-1")),
        member_id=names.member(arguments.take("member", "")),
        group_instance_id=_nullable(arguments, "instance"),
    )


def _leave(arguments: Arguments, version: int, names: Names) -> LeaveGroupRequest:
    group_id = _group(arguments, names)
    if version < LEAVE_MEMBERS_SINCE:
        return LeaveGroupRequest(
            group_id=group_id, member_id=names.member(arguments.take("member", ""))
        )
    reason = _nullable(arguments, "reason")
    members = []
    for item in arguments.take_list("members"):
        member, slash, instance = item.partition("/")
        members.append(
            LeaveGroupRequestMember(
                member_id=names.member(unquote(member)),
                group_instance_id=instance if slash else None,
                reason=reason,
            )
        )
    return LeaveGroupRequest(group_id=group_id, members=members)


def _commit(arguments: Arguments, version: int, names: Names) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, value in arguments.take_map("offsets").items():
        topic, index = parse_partition(partition)
        offset, *rest = parse_arguments(value).positional
        epoch = -1
        if rest[:1] == ["epoch"]:
            epoch, rest = int(rest[1]), rest[2:]
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=int(offset),
                committed_leader_epoch=epoch,
                committed_metadata=_metadata(rest),
            )
        )
    by_id = version >= TOPIC_IDS_SINCE
    return OffsetCommitRequest(
        group_id=_group(arguments, names),
        generation_id_or_member_epoch=int(arguments.take("generation", "-1")),
        member_id=names.member(arguments.take("member", "")),
        group_instance_id=_nullable(arguments, "instance"),
        retention_time_ms=parse_duration_ms(arguments.take("retention", "-1")),
        topics=[
            OffsetCommitRequestTopic(topic_id=names.topic_id(topic), partitions=partitions)
            if by_id
            else OffsetCommitRequestTopic(name=names.topic(topic), partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def _txn_commit(arguments: Arguments, _version: int, names: Names) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for partition, value in arguments.take_map("offsets").items():
        topic, index = parse_partition(partition)
        offset, *rest = parse_arguments(value).positional
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=int(offset),
                committed_metadata=_metadata(rest),
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=names.own(arguments.take("transaction", "transaction")),
        group_id=_group(arguments, names),
        producer_id=int(arguments.take("producer", "1")),
        producer_epoch=int(arguments.take("epoch", "0")),
        generation_id=int(arguments.take("generation", "-1")),
        member_id=names.member(arguments.take("member", "")),
        group_instance_id=_nullable(arguments, "instance"),
        topics=[
            TxnOffsetCommitRequestTopic(name=names.topic(topic), partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def _metadata(words: list[str]) -> str | None:
    """Return the metadata of a commit: null if absent, `"text"`, or `4097 of x` for 4097 x's."""
    if not words:
        return None
    if len(words) == 3 and words[1] == "of":
        return int(words[0]) * words[2]
    if len(words) == 1:
        return unquote(words[0])
    raise TranscriptError(f"{' '.join(words)!r} is not metadata")


def _fetch_topics(text: str, version: int, names: Names) -> list[OffsetFetchRequestTopic] | None:
    """Return the topics of `all`, of `[sales-0, sales-1]` or of `sales-0 sales-1`."""
    if text == "all":
        return None
    by_id = version >= TOPIC_IDS_SINCE
    partitions = [word for item in parse_list(text) for word in item.split()]
    return [
        OffsetFetchRequestTopic(topic_id=names.topic_id(topic), partition_indexes=indexes)
        if by_id
        else OffsetFetchRequestTopic(name=names.topic(topic), partition_indexes=indexes)
        for topic, indexes in group_by_topic(partitions).items()
    ]


def _fetch(arguments: Arguments, version: int, names: Names) -> OffsetFetchRequest:
    stable = arguments.take("stable", "false") == "true"
    if "groups" in arguments.named:
        groups = parse_map(arguments.named.pop("groups"))
    else:
        groups = {arguments.take("group", "orders"): arguments.named.pop("partitions", "all")}
    if version >= FETCH_GROUPS_SINCE:
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=names.group(group), topics=_fetch_topics(text, version, names)
                )
                for group, text in groups.items()
            ],
            require_stable=stable,
        )
    if len(groups) != 1:
        raise TranscriptError(f"before v{FETCH_GROUPS_SINCE} a request has one group")
    ((group, text),) = groups.items()
    topics = _fetch_topics(text, version, names)
    return OffsetFetchRequest(group_id=names.group(group), topics=topics, require_stable=stable)


def _delete_offsets(arguments: Arguments, _version: int, names: Names) -> OffsetDeleteRequest:
    topics = group_by_topic(arguments.take_list("partitions"))
    return OffsetDeleteRequest(
        group_id=_group(arguments, names),
        topics=[
            OffsetDeleteRequestTopic(
                name=names.topic(topic),
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in topics.items()
        ],
    )


def _list(arguments: Arguments, _version: int, _names: Names) -> ListGroupsRequest:
    return ListGroupsRequest(
        states_filter=[unquote(each) for each in arguments.take_list("states")],
        types_filter=[unquote(each) for each in arguments.take_list("types")],
    )


def _describe(arguments: Arguments, _version: int, names: Names) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(
        groups=[names.group(unquote(each)) for each in arguments.take_list("groups", "[orders]")],
        include_authorized_operations=arguments.take("operations", "false") == "true",
    )


def _delete_groups(arguments: Arguments, _version: int, names: Names) -> DeleteGroupsRequest:
    groups = arguments.take_list("groups", "[orders]")
    return DeleteGroupsRequest(groups_names=[names.group(unquote(each)) for each in groups])


_BUILDERS: dict[str, Callable[[Arguments, int, Names], Message]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "TxnOffsetCommit": _txn_commit,
    "OffsetFetch": _fetch,
    "OffsetDelete": _delete_offsets,
    "ListGroups": _list,
    "DescribeGroups": _describe,
    "DeleteGroups": _delete_groups,
}

# The names of the APIs that a transcript can use.
REQUEST_APIS = frozenset(_BUILDERS)
