"""Fetch: read record batches; wait up to `max_wait_ms` for `min_bytes` [data-plane/long-poll].

A request stands alone, opens a fetch session, or continues one [data-plane/fetch-sessions].
"""

from collections.abc import Callable

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchRequest, FetchResponse
from coterie.server.handlers.plain_fetch import TOPIC_IDS_SINCE, Fetch, refused_as_a_whole
from coterie.server.handlers.session_fetch import SessionFetch, leaves_no_partition
from coterie.server.logs.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    may_be_session,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services,
    request: FetchRequest,
    connection: Exchange,
    plain: Callable[[Services, FetchRequest, Exchange], Fetch] = Fetch,
    of_session: Callable[
        [Services, FetchRequest, Exchange, FetchSession | None], SessionFetch
    ] = SessionFetch,
) -> FetchResponse | None:
    """Answer with the records there are, or wait for more.

    Args:
        broker: the broker.
        request: the request.
        connection: where it came from.
        plain, of_session: make a fetch without and with a session.
    """
    if not may_be_session(request.session_id):
        return refused_as_a_whole(request, connection.version)
    epoch = request.session_epoch
    if epoch != FINAL_EPOCH and epoch != INITIAL_EPOCH:
        found = broker.fetch_sessions.find(
            request.session_id, epoch, uses_topic_ids=connection.version >= TOPIC_IDS_SINCE
        )
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=found, responses=[])
        if not leaves_no_partition(found, request):
            return of_session(broker, request, connection, found).answer()
        # The session ends, and what the request names is read without one.
        epoch = FINAL_EPOCH
    if request.session_id != NO_SESSION:
        broker.fetch_sessions.close(request.session_id)
    if epoch == INITIAL_EPOCH:
        return of_session(broker, request, connection, None).answer()
    return plain(broker, request, connection).answer()
