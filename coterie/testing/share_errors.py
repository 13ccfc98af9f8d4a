"""The response to a ShareFetch or ShareAcknowledge that carries an error and nothing else.

As in Kafka, an error about partitions is in the response for each partition, so the request counts
in its share session; the client would lose the session otherwise. Any other error is that of the
request.
"""

from collections.abc import Sequence

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from coterie.protocol.messages.share_session_parts import ShareLeader
from coterie.protocol.refusals import refusal
from coterie.server.services import Services
from coterie.server.share.sessions import SharedPartition
from coterie.testing.request_subjects import share_session

# What a leader says of a partition, and not of the request.
_OF_PARTITIONS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


def share_error(
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    error: ErrorCode,
    version: int,
    broker: Services,
) -> ShareFetchResponse | ShareAcknowledgeResponse:
    """Return the response to a request with an error in every place that has it."""
    if error not in _OF_PARTITIONS:
        refused: ShareFetchResponse | ShareAcknowledgeResponse = refusal(request, error, version)
        return refused
    acknowledged: dict[SharedPartition, bool] = {
        (topic.topic_id, each.partition_index): bool(each.acknowledgement_batches)
        for topic in request.topics
        for each in topic.partitions
    }
    session = share_session(request, broker)
    if session is not None and session.epoch == request.share_session_epoch:
        session.advance()
    lock_ms = broker.share.settings(request.group_id or "").lock_ms
    if isinstance(request, ShareAcknowledgeRequest):
        return _acknowledge(list(acknowledged), error, lock_ms)
    for each in () if session is None else session.partitions:
        acknowledged.setdefault(each, False)
    return _fetch(acknowledged, error, lock_ms)


def _acknowledge(
    partitions: Sequence[SharedPartition], error: ErrorCode, lock_ms: int
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[
                    ShareAcknowledgePartitionResponse(
                        partition_index=index, error_code=error, current_leader=_no_leader()
                    )
                ],
            )
            for topic_id, index in partitions
        ],
        node_endpoints=[],
    )


def _fetch(
    acknowledged: dict[SharedPartition, bool], error: ErrorCode, lock_ms: int
) -> ShareFetchResponse:
    """Answer a fetch; the state of records is that of acknowledgements only."""
    is_of_records = error is ErrorCode.INVALID_RECORD_STATE
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            ShareFetchTopicResponse(
                topic_id=topic_id,
                partitions=[
                    ShareFetchPartitionResponse(
                        partition_index=index,
                        error_code=ErrorCode.NONE if is_of_records else error,
                        acknowledge_error_code=error if has_batches else ErrorCode.NONE,
                        current_leader=_no_leader(),
                        records=b"",
                        acquired_records=[],
                    )
                ],
            )
            for (topic_id, index), has_batches in acknowledged.items()
        ],
        node_endpoints=[],
    )


def _no_leader() -> ShareLeader:
    """Return what a client reads where there is no other leader."""
    return ShareLeader(leader_id=0, leader_epoch=0)
