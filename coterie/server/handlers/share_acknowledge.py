"""ShareAcknowledge: say what became of acquired records, in a share session.

The answer waits until what was said is persisted [share-partitions/acknowledgement].
"""

from collections.abc import Generator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices, run_now, send_in_slices
from coterie.server.services import Services
from coterie.server.share.acknowledging import (
    Leaders,
    MayRead,
    acknowledge_each,
    acknowledged_partitions,
    ids_error,
    partition_errors,
    partitions_of,
)
from coterie.server.share.limits import HANDLED_AT_ONCE
from coterie.server.share.sessions import FINAL_EPOCH, OPENING_EPOCH, SharedPartition, ShareSession


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
    session = broker.share.sessions.find((group_id, member_id), request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return _refused(session)
    return _Acknowledging(broker, request, connection, session, may_read).answer()


class _Acknowledging:
    """A ShareAcknowledge while it is handled; one of many partitions is handled in slices."""

    def __init__(
        self,
        broker: Services,
        request: ShareAcknowledgeRequest,
        connection: Exchange,
        session: ShareSession,
        may_read: MayRead,
    ) -> None:
        self._broker = broker
        self._request = request
        self._connection = connection
        self._session = session
        self._may_read = may_read
        self._results: dict[SharedPartition, tuple[ErrorCode, str | None]] = {}
        # With acknowledgements that make sense each partition of the request is answered, otherwise
        # those with an error.
        self._unsaid: dict[SharedPartition, ErrorCode] = {}
        # How many results there will be; None before that is known.
        self._count: int | None = None
        self._delayed: DelayedResponse | None = None
        named = sum(len(topic.partitions) for topic in request.topics)
        self._in_slices = named > HANDLED_AT_ONCE

    def answer(self) -> ShareAcknowledgeResponse | None:
        """Return the response, or None if it is sent later."""
        if not self._in_slices:
            run_now(self._apply())
            if len(self._results) == self._count:
                return run_now(self._response())
        self._delayed = DelayedResponse(self._connection)
        self._connection.delay_and_mute(self._delayed)
        if self._in_slices:
            run_in_slices(self._broker, self._connection, self._apply(), self._send_if_complete)
        return None

    def _apply(self) -> Generator[None, None, None]:
        wanted = partitions_of(self._request.topics)
        asked = acknowledged_partitions(wanted)
        yield
        make_sense = yield from acknowledge_each(
            self._broker,
            self._session.key,
            asked,
            self._may_read,
            may_renew=self._request.is_renew_ack,
            done=self._done,
        )
        if self._request.share_session_epoch == FINAL_EPOCH:
            ended = partial(self._broker.share.end_session, self._session, is_final=True)
            self._broker.loop.call_soon(ended)
        left = [each for each in wanted if each not in asked]
        unsaid = yield from partition_errors(self._broker, left, self._may_read)
        self._unsaid = {each: error for each, error in unsaid.items() if make_sense or error}
        self._count = len(asked)

    def _done(self, wanted: SharedPartition, error: ErrorCode, message: str | None) -> None:
        self._results[wanted] = error, message
        self._send_if_complete()

    def _send_if_complete(self, _applied: None = None) -> None:
        if self._delayed is None or len(self._results) != self._count:
            return
        delayed, self._delayed = self._delayed, None
        if self._in_slices:
            send_in_slices(self._broker, delayed, self._response())
        else:
            delayed.send(run_now(self._response()))

    def _response(self) -> Generator[None, None, ShareAcknowledgeResponse]:
        leaders = Leaders(self._broker, self._connection)
        topics: dict[bytes, list[ShareAcknowledgePartitionResponse]] = {}
        results = {each: (error, None) for each, error in self._unsaid.items()} | self._results
        for count, (wanted, (error, message)) in enumerate(results.items(), 1):
            topic_id, index = wanted
            part = ShareAcknowledgePartitionResponse(
                partition_index=index,
                error_code=error,
                error_message=message,
                current_leader=leaders.hint(wanted, error),
            )
            topics.setdefault(topic_id, []).append(part)
            if not count % HANDLED_AT_ONCE:
                yield
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._broker.share.settings(self._session.key[0]).lock_ms,
            responses=[
                ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=parts)
                for topic_id, parts in topics.items()
            ],
            node_endpoints=leaders.endpoints,
        )


def _refused(error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error, responses=[], node_endpoints=[])
