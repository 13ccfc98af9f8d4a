"""Responses that carry nothing but an error, where `refusal` alone does not make them.

They serve everything that is decided outside of a verb: a partition that is not available, an
invalid id, an append that failed. Those of one type's own requests are in its folder.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from coterie.protocol.refusals import refusal, refused_part

# The first version of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS.
_TXN_COMMIT_LOADING_SINCE = 2

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


def fetch_error_response(
    request: OffsetFetchRequest, error: ErrorCode, version: int
) -> OffsetFetchResponse:
    """Return a refused OffsetFetch [offsets/fetch-errors]."""
    response: OffsetFetchResponse = refusal(request, _fetch_error(error), version, metadata="")
    return response


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """Return the error as OffsetFetch reports it [offsets/fetch-errors]."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error


def _txn_commit_error_response(
    request: TxnOffsetCommitRequest, error: ErrorCode, version: int
) -> TxnOffsetCommitResponse:
    if version < _TXN_COMMIT_LOADING_SINCE:
        error = without_loading(error)
    response: TxnOffsetCommitResponse = refusal(request, error, version)
    return response


# Those of requests that are the same for all types of groups.
ERROR_RESPONSES: dict[type, ErrorResponse] = {
    TxnOffsetCommitRequest: _txn_commit_error_response,
    TransactionEnd: lambda _, error, __: error,
    OffsetFetchRequest: fetch_error_response,
    OffsetFetchRequestGroup: lambda group, error, _: refused_part(
        OffsetFetchResponseGroup, group, _fetch_error(error)
    ),
    DescribedGroup: lambda group, error, _: refused_part(
        DescribeGroupsResponseGroup, group.group_id, error
    ),
    DeletedGroup: lambda group, error, _: refused_part(
        DeleteGroupsResponseResult, group.group_id, error
    ),
}
