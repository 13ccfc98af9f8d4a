"""ShareAcknowledge: say what became of acquired records, in a share session.

The answer waits until what was said is persisted [share-partitions/acknowledgement].
"""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.share.acknowledging import (
    Leaders,
    MayRead,
    acknowledge_all,
    ids_error,
    partition_error,
    partitions_of,
)
from coterie.server.share.sessions import FINAL_EPOCH, OPENING_EPOCH, SharedPartition


def _may_read_all(_topic: str) -> bool:
    return True


def handle(
    broker: Services,
    request: ShareAcknowledgeRequest,
    connection: Exchange,
    may_read: MayRead = _may_read_all,
) -> ShareAcknowledgeResponse | None:
    """Apply the acknowledgements, and end the session if that is asked for."""
    group_id, member_id = request.group_id, request.member_id
    if not broker.features.serves_share_groups:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    error = ids_error(group_id, member_id)
    if error or group_id is None or member_id is None:
        return _refused(error)
    if request.share_session_epoch == OPENING_EPOCH:
        return _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    key = (group_id, member_id)
    session = broker.share.sessions.find(key, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return _refused(session)
    results: dict[SharedPartition, tuple[ErrorCode, str | None]] = {}
    # With acknowledgements each partition of the request is answered.
    unsaid: dict[SharedPartition, tuple[ErrorCode, str | None]] = {}
    delayed: DelayedResponse | None = None
    count = 0

    def done(wanted: SharedPartition, error: ErrorCode, message: str | None) -> None:
        results[wanted] = error, message
        if delayed is not None and len(results) == count:
            delayed.send(_answer(broker, connection, group_id, unsaid | results))

    wanted = partitions_of(request.topics)
    count = acknowledge_all(
        broker,
        key,
        wanted,
        may_read,
        may_renew=request.is_renew_ack,
        done=done,
    )
    if request.share_session_epoch == FINAL_EPOCH:
        broker.loop.call_soon(broker.share.end_session, session)
    if count:
        left = [each for each, batches in wanted.items() if not batches]
        unsaid = {each: (partition_error(broker, each, may_read), None) for each in left}
    if len(results) == count:
        return _answer(broker, connection, group_id, unsaid | results)
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    return None


def _refused(error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error, responses=[], node_endpoints=[])


def _answer(
    broker: Services,
    connection: Exchange,
    group_id: str,
    results: dict[SharedPartition, tuple[ErrorCode, str | None]],
) -> ShareAcknowledgeResponse:
    leaders = Leaders(broker, connection)
    topics: dict[bytes, list[ShareAcknowledgePartitionResponse]] = {}
    for wanted, (error, message) in results.items():
        topic_id, index = wanted
        part = ShareAcknowledgePartitionResponse(
            partition_index=index,
            error_code=error,
            error_message=message,
            current_leader=leaders.hint(wanted, error),
        )
        topics.setdefault(topic_id, []).append(part)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share.settings(group_id).lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=parts)
            for topic_id, parts in topics.items()
        ],
        node_endpoints=leaders.endpoints,
    )
