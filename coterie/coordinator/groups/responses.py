"""Responses of joins and syncs, error responses of every request, responses about several groups.

`error_response` puts an error into the field of the response where clients of that version expect
it. It serves everything that is decided outside of a verb: a partition that is not available, an
invalid id, an append that failed.

A request about several groups touches several partitions, and each may delay its part until earlier
appends are durable. `MultiGroupResponse` collects the parts [coordinator/several-groups].
"""

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
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
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# The first version of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS.
_TXN_COMMIT_LOADING_SINCE = 2

# The first versions of OffsetFetch that carry an error per group, and one for the whole request.
_FETCH_ERROR_PER_GROUP_SINCE = 8
_FETCH_ERROR_SINCE = 2

# What a client learns of a log append that failed [coordinator/error-translation].
_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    # Kafka raises this one while it verifies a transaction. Older clients retry the translation
    # without looking for another coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


# The error of an operation that does not fit a batch [coordinator/operation-size].
LARGE_OPERATION_ERROR = _APPEND_ERRORS[ErrorCode.MESSAGE_TOO_LARGE]


def translate_append_error(error: ErrorCode) -> ErrorCode:
    """Return the error for clients when a log append fails [coordinator/error-translation]."""
    return _APPEND_ERRORS.get(error, error)


# -- successful responses --------------------------------------------------------------------------


def join_roster(group: Group) -> list[JoinGroupResponseMember]:
    """Return the list of members for the leader, with their metadata for the chosen protocol."""
    name = group.protocol_name
    assert name is not None, "a generation has a protocol"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(name),
        )
        for member in group.members.values()
    ]


def join_response(
    group: Group, member: Member, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    """Return a successful JoinGroup of the present generation [joining/join-responses]."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def assignment_response(group: Group, member: Member) -> SyncGroupResponse:
    """Return a successful SyncGroup with the member's part of the assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


# -- error responses -------------------------------------------------------------------------------


class DescribedGroup:
    """One group of a DescribeGroups request."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


class DeletedGroup(DescribedGroup):
    """One group of a DeleteGroups request."""

    __slots__ = ()


def error_response(request: Any, error: ErrorCode, version: int) -> Any:
    """Return the response that carries nothing but an error.

    Args:
        request: a group request, or the part of one that concerns one group.
        error: already translated if it comes from the log.
        version: the version of the request.
    """
    kind = type(request)
    if kind is OffsetFetchRequest:
        return _fetch_error_response(request, error, version)
    if kind is TxnOffsetCommitRequest and version < _TXN_COMMIT_LOADING_SINCE:
        error = without_loading(error)
    return _ERROR_RESPONSES[kind](request, error)


def without_loading(error: ErrorCode) -> ErrorCode:
    """Return the error for a client for which a load is fatal [offsets/transactional-errors]."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return a refused JoinGroup [joining/error-responses]."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Return a refused SyncGroup, without protocol and assignment."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return a refused OffsetCommit: every partition has the error [offsets/commit-errors]."""
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


def txn_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Return a refused TxnOffsetCommit: every partition has the error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition.of(each.partition_index, error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def describe_error(group_id: str, error: ErrorCode) -> DescribeGroupsResponseGroup:
    """Return a group that cannot be described."""
    return DescribeGroupsResponseGroup(
        error_code=error,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _join_error_response(request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    # Kafka echoes the member id if the request is at fault, and not if it has no coordinator for
    # the group.
    echoed = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_error(error, request.member_id if echoed else "")


def _fetch_error_response(
    request: OffsetFetchRequest, error: ErrorCode, version: int
) -> OffsetFetchResponse:
    """Return a refused OffsetFetch [offsets/fetch-errors]."""
    if version >= _FETCH_ERROR_PER_GROUP_SINCE:
        groups = [_fetched_group_error(group, error) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    error = _fetch_error(error)
    if version >= _FETCH_ERROR_SINCE:
        return OffsetFetchResponse(topics=[], error_code=error)
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


def _fetched_group_error(
    group: OffsetFetchRequestGroup, error: ErrorCode
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[], error_code=_fetch_error(error)
    )


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """Return the error as OffsetFetch reports it [offsets/fetch-not-available]."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error


_ERROR_RESPONSES: dict[type, Any] = {
    JoinGroupRequest: _join_error_response,
    SyncGroupRequest: lambda _, error: sync_error(error),
    HeartbeatRequest: lambda _, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda _, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: commit_error,
    TxnOffsetCommitRequest: txn_commit_error,
    TransactionEnd: lambda _, error: error,
    OffsetDeleteRequest: lambda _, error: OffsetDeleteResponse(error_code=error, topics=[]),
    ListGroupsRequest: lambda _, error: ListGroupsResponse(error_code=error, groups=[]),
    OffsetFetchRequestGroup: _fetched_group_error,
    DescribedGroup: lambda group, error: describe_error(group.group_id, error),
    DeletedGroup: lambda group, error: DeleteGroupsResponseResult(
        group_id=group.group_id, error_code=error
    ),
}


# -- responses about several groups ----------------------------------------------------------------


class MultiGroupResponse:
    """A response that leaves when the part of every group is there.

    Attributes:
        to: the reply address.
        message: the response.
        parts: the list inside `message`, with one place per group.
        missing: the number of parts that are not there yet.
    """

    __slots__ = ("message", "missing", "parts", "to")

    def __init__(self, to: Hashable, message: Any, parts: list[Any]) -> None:
        self.to = to
        self.message = message
        self.parts = parts
        self.missing = len(parts)


class ResponsePart:
    """The place of one group in a `MultiGroupResponse`, used where a reply address is expected."""

    __slots__ = ("index", "response")

    def __init__(self, response: MultiGroupResponse, index: int) -> None:
        self.response = response
        self.index = index

    def deliver(self, part: Any, effects: Effects[Any]) -> None:
        """Put the group's part in its place; with the last one, send the whole response."""
        response = self.response
        response.parts[self.index] = part
        response.missing -= 1
        assert response.missing >= 0, "a part is delivered once"
        if not response.missing:
            effects.reply(response.to, response.message)
