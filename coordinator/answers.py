"""How each request is told that it was refused as a whole: which field of its answer carries the
error.

Used for whatever is decided before or after the group logic: a partition that is not here or still
loading, an id that is no group id, an append that failed.
"""

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.effects import ABSENT, Effects, Reply
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_STORAGE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    # From verifying a transaction; older clients retry this one without looking for a coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class DescribeOne:
    """One group of a DescribeGroups or DeleteGroups, held until its partition's earlier appends are
    durable.
    """

    __slots__ = ("group_id",)

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


class DeleteOne(DescribeOne):
    """One group of a DeleteGroups."""

    __slots__ = ()


class Gather:
    """An answer in the making: a list of parts inside a message that leaves when the last part is
    there.
    """

    __slots__ = ("items", "message", "missing", "to")

    def __init__(self, to: Hashable, message: Any, items: list[Any]) -> None:
        """`items` is the list inside `message` that the parts go into, one place each."""
        self.to = to
        self.message = message
        self.items = items
        self.missing = len(items)


class Part:
    """The place of one part: what an operation holds instead of a reply address."""

    __slots__ = ("gather", "index")

    def __init__(self, gather: Gather, index: int) -> None:
        self.gather = gather
        self.index = index

    def fill(self, item: Any, effects: Effects) -> None:
        """Put the part in its place; with the last one the whole answer leaves."""
        gather = self.gather
        gather.items[self.index] = item
        gather.missing -= 1
        assert gather.missing >= 0, "a part is filled once"
        if not gather.missing:
            effects.replies.append(Reply(gather.to, gather.message))


def translate(error: ErrorCode) -> ErrorCode:
    """What a client is told of a log append that failed (spec section 2.1)."""
    return _STORAGE_ERRORS.get(error, error)


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refused JoinGroup: no generation, no leader, no protocol (spec section 1.2)."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup: no protocol, no assignment."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """A group's error stands on every partition: this answer has no top-level one."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refuse_join(request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    """Kafka repeats the member id where it looked at the request, not where it has no coordinator
    to ask (asked 4.3.1: NOT_COORDINATOR comes with a blank one).
    """
    echoed = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_error(error, request.member_id if echoed else "")


def _refuse_offset_fetch(
    request: OffsetFetchRequest, error: ErrorCode, version: int
) -> OffsetFetchResponse:
    error = _fetch_error(error)
    if version >= 8:
        groups = [_refuse_fetch_group(group, error) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= 2:
        return OffsetFetchResponse(topics=[], error_code=error)
    # Version 1 has no error at the top: every partition carries it (spec section 1.2).
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    return OffsetFetchResponse(topics=topics)


def _refuse_fetch_group(
    group: OffsetFetchRequestGroup, error: ErrorCode
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[], error_code=_fetch_error(error)
    )


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """Clients before 4.0 take COORDINATOR_NOT_AVAILABLE in an OffsetFetch for fatal, so Kafka says
    NOT_COORDINATOR there (spec section 2.1).
    """
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error


def refuse_describe(group_id: str, error: ErrorCode) -> DescribeGroupsResponseGroup:
    """A group that can't be described."""
    return DescribeGroupsResponseGroup(
        error_code=error,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def refuse(request: Any, error: ErrorCode, version: int) -> Any:
    """The answer to a request, or to one group's part of it, that says nothing but an error.

    Args:
        request: a group request, or the part of one that concerns one group.
        error: already translated where it comes from the log.
        version: of the request.
    """
    kind = type(request)
    if kind is OffsetFetchRequest:
        return _refuse_offset_fetch(request, error, version)
    return _REFUSALS.get(kind, ABSENT)(request, error)


_REFUSALS: dict[type, Any] = {
    JoinGroupRequest: _refuse_join,
    SyncGroupRequest: lambda _, error: sync_error(error),
    HeartbeatRequest: lambda _, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda _, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: commit_error,
    OffsetDeleteRequest: lambda _, error: OffsetDeleteResponse(error_code=error, topics=[]),
    ListGroupsRequest: lambda _, error: ListGroupsResponse(error_code=error, groups=[]),
    OffsetFetchRequestGroup: _refuse_fetch_group,
    DescribeOne: lambda part, error: refuse_describe(part.group_id, error),
    DeleteOne: lambda part, error: DeleteGroupsResponseResult(
        group_id=part.group_id, error_code=error
    ),
}
