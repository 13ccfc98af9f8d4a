"""Responses that carry nothing but an error, to requests that are the same for all types of groups.

Each puts the error into the field of the response where clients of that version expect it. They
serve everything that is decided outside of a verb: a partition that is not available, an invalid
id, an append that failed. Those of one type's own requests are in its folder.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
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


# Makes the response to a request that carries nothing but an error, of the request, the error and
# the version of the request.
ErrorResponse = Callable[[Any, ErrorCode, int], Any]


class DescribedGroup:
    """One group of a DescribeGroups request."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


class DeletedGroup(DescribedGroup):
    """One group of a DeleteGroups request."""

    __slots__ = ()


def without_loading(error: ErrorCode) -> ErrorCode:
    """Return the error for a client for which a load is fatal [offsets/transactional-errors]."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


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


def fetch_error_response(
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


def _txn_commit_error_response(
    request: TxnOffsetCommitRequest, error: ErrorCode, version: int
) -> TxnOffsetCommitResponse:
    if version < _TXN_COMMIT_LOADING_SINCE:
        error = without_loading(error)
    return txn_commit_error(request, error)


# Those of requests that are the same for all types of groups.
ERROR_RESPONSES: dict[type, ErrorResponse] = {
    OffsetCommitRequest: lambda request, error, _: commit_error(request, error),
    TxnOffsetCommitRequest: _txn_commit_error_response,
    TransactionEnd: lambda _, error, __: error,
    OffsetDeleteRequest: lambda _, error, __: OffsetDeleteResponse(error_code=error, topics=[]),
    ListGroupsRequest: lambda _, error, __: ListGroupsResponse(error_code=error, groups=[]),
    OffsetFetchRequest: fetch_error_response,
    OffsetFetchRequestGroup: lambda group, error, _: _fetched_group_error(group, error),
    DescribedGroup: lambda group, error, _: describe_error(group.group_id, error),
    DeletedGroup: lambda group, error, _: DeleteGroupsResponseResult(
        group_id=group.group_id, error_code=error
    ),
}
