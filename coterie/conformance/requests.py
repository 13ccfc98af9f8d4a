"""Request lines to request messages, one function an API.

Every field that matters is written out in a transcript; what is left out has the same default in
every file: group `orders`, protocol type `consumer`, protocol `range` with a subscription to
`sales`, session 10 s, rebalance 60 s.
"""

from collections.abc import Callable

from coterie.conformance.names import Names
from coterie.conformance.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_bytes,
    subscription_bytes,
)
from coterie.conformance.transcript import TranscriptError
from coterie.conformance.words import (
    Words,
    by_topic,
    duration_ms,
    entries_of,
    items_of,
    partition_of,
    unquoted,
    words_of,
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
from coterie.protocol.wire import Message

# First versions that carry what the names say (spec section 1.2).
_REBALANCE_TIMEOUT_SINCE = 1
_SYNC_SAYS_PROTOCOL_SINCE = 5
_LEAVES_MANY_SINCE = 3
_FETCHES_MANY_SINCE = 8
_TOPIC_IDS_SINCE = 10


def request_of(api: str, version: int, rest: str, names: Names) -> Message:
    """The request message of a line.

    Args:
        api: "JoinGroup" and so on.
        version: the version it will be sent in.
        rest: of the line, behind the version.
        names: of the transcript.

    Raises:
        TranscriptError: no such API, a name that the API does not have, a value of the wrong form.
    """
    build = _BUILDERS.get(api)
    if build is None:
        raise TranscriptError(f"{api} is none of {', '.join(_BUILDERS)}")
    words = words_of(rest)
    if words.bare:
        raise TranscriptError(f"{' '.join(words.bare)!r}: fields are name=value")
    message = build(words, version, names)
    words.done()
    return message


def _group(words: Words, names: Names) -> str:
    return names.group(words.take("group", "orders"))


def _nullable(words: Words, name: str) -> str | None:
    text = words.named.pop(name, None)
    return None if text in (None, "null") else unquoted(str(text))


def _join(words: Words, version: int, names: Names) -> JoinGroupRequest:
    rebalance = "60s" if version >= _REBALANCE_TIMEOUT_SINCE else "-1"
    protocols = []
    for item in words.take_list("protocols", "[range]"):
        name, _, metadata = item.partition(":")
        metadata = metadata.strip() or DEFAULT_SUBSCRIPTION
        protocols.append(
            JoinGroupRequestProtocol(name=name.strip(), metadata=subscription_bytes(metadata))
        )
    return JoinGroupRequest(
        group_id=_group(words, names),
        session_timeout_ms=duration_ms(words.take("session", "10s")),
        rebalance_timeout_ms=duration_ms(words.take("rebalance", rebalance)),
        member_id=names.member(words.take("member", "")),
        group_instance_id=_nullable(words, "instance"),
        protocol_type=words.take("type", "consumer"),
        protocols=protocols,
        reason=_nullable(words, "reason"),
    )


def _sync(words: Words, version: int, names: Names) -> SyncGroupRequest:
    said = version >= _SYNC_SAYS_PROTOCOL_SINCE
    words.named.setdefault("type", "consumer" if said else "null")
    words.named.setdefault("protocol", "range" if said else "null")
    return SyncGroupRequest(
        group_id=_group(words, names),
        generation_id=int(words.take("generation", "-1")),
        member_id=names.member(words.take("member", "")),
        group_instance_id=_nullable(words, "instance"),
        protocol_type=_nullable(words, "type"),
        protocol_name=_nullable(words, "protocol"),
        assignments=[
            SyncGroupRequestAssignment(
                member_id=names.member(member), assignment=assignment_bytes(text)
            )
            for member, text in words.take_map("assignment").items()
        ],
    )


def _heartbeat(words: Words, _version: int, names: Names) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=_group(words, names),
        generation_id=int(words.take("generation", "-1")),
        member_id=names.member(words.take("member", "")),
        group_instance_id=_nullable(words, "instance"),
    )


def _leave(words: Words, version: int, names: Names) -> LeaveGroupRequest:
    group_id = _group(words, names)
    if version < _LEAVES_MANY_SINCE:
        return LeaveGroupRequest(
            group_id=group_id, member_id=names.member(words.take("member", ""))
        )
    reason = _nullable(words, "reason")
    members = []
    for item in words.take_list("members"):
        member, slash, instance = item.partition("/")
        members.append(
            LeaveGroupRequestMember(
                member_id=names.member(unquoted(member)),
                group_instance_id=instance if slash else None,
                reason=reason,
            )
        )
    return LeaveGroupRequest(group_id=group_id, members=members)


def _commit(words: Words, version: int, names: Names) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, value in words.take_map("offsets").items():
        topic, index = partition_of(partition)
        offset, note = words_of(value).bare[0], words_of(value).bare[1:]
        epoch = -1
        if note[:1] == ["epoch"]:
            epoch, note = int(note[1]), note[2:]
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=int(offset),
                committed_leader_epoch=epoch,
                committed_metadata=_note(note),
            )
        )
    by_id = version >= _TOPIC_IDS_SINCE
    return OffsetCommitRequest(
        group_id=_group(words, names),
        generation_id_or_member_epoch=int(words.take("generation", "-1")),
        member_id=names.member(words.take("member", "")),
        group_instance_id=_nullable(words, "instance"),
        retention_time_ms=duration_ms(words.take("retention", "-1")),
        topics=[
            OffsetCommitRequestTopic(topic_id=names.topic_id(topic), partitions=partitions)
            if by_id
            else OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def _note(words: list[str]) -> str | None:
    """Metadata of a commit: nothing is null; `"text"` is that; `4097 of x` is that many x."""
    if not words:
        return None
    if len(words) == 3 and words[1] == "of":
        return int(words[0]) * words[2]
    if len(words) == 1:
        return unquoted(words[0])
    raise TranscriptError(f"{' '.join(words)!r} is no metadata")


def _fetch_topics(text: str, version: int, names: Names) -> list[OffsetFetchRequestTopic] | None:
    """`all`, or partitions parted by spaces or as a list."""
    if text == "all":
        return None
    by_id = version >= _TOPIC_IDS_SINCE
    partitions = [word for item in items_of(text) for word in item.split()]
    return [
        OffsetFetchRequestTopic(topic_id=names.topic_id(topic), partition_indexes=indexes)
        if by_id
        else OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]


def _fetch(words: Words, version: int, names: Names) -> OffsetFetchRequest:
    stable = words.take("stable", "false") == "true"
    if "groups" in words.named:
        wanted = entries_of(words.named.pop("groups"))
    else:
        wanted = {words.take("group", "orders"): words.named.pop("partitions", "all")}
    if version >= _FETCHES_MANY_SINCE:
        groups = [
            OffsetFetchRequestGroup(
                group_id=names.group(group), topics=_fetch_topics(text, version, names)
            )
            for group, text in wanted.items()
        ]
        return OffsetFetchRequest(groups=groups, require_stable=stable)
    if len(wanted) != 1:
        raise TranscriptError(f"before v{_FETCHES_MANY_SINCE} there is one group a request")
    ((group, text),) = wanted.items()
    topics = _fetch_topics(text, version, names)
    return OffsetFetchRequest(group_id=names.group(group), topics=topics, require_stable=stable)


def _delete_offsets(words: Words, _version: int, names: Names) -> OffsetDeleteRequest:
    topics = by_topic(words.take_list("partitions"))
    return OffsetDeleteRequest(
        group_id=_group(words, names),
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in topics.items()
        ],
    )


def _list(words: Words, _version: int, _names: Names) -> ListGroupsRequest:
    return ListGroupsRequest(
        states_filter=[unquoted(each) for each in words.take_list("states")],
        types_filter=[unquoted(each) for each in words.take_list("types")],
    )


def _describe(words: Words, _version: int, names: Names) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(
        groups=[names.group(unquoted(each)) for each in words.take_list("groups", "[orders]")],
        include_authorized_operations=words.take("operations", "false") == "true",
    )


def _delete_groups(words: Words, _version: int, names: Names) -> DeleteGroupsRequest:
    groups = words.take_list("groups", "[orders]")
    return DeleteGroupsRequest(groups_names=[names.group(unquoted(each)) for each in groups])


_BUILDERS: dict[str, Callable[[Words, int, Names], Message]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "OffsetDelete": _delete_offsets,
    "ListGroups": _list,
    "DescribeGroups": _describe,
    "DeleteGroups": _delete_groups,
}
