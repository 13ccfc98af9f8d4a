"""ShareFetch: acquire records for a member of a share group, and acknowledge earlier ones.

A request opens a share session, continues or ends it [share-partitions/sessions]. It waits up to
`max_wait_ms` until `min_bytes` can be acquired [share-partitions/fetch].
"""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.share.acknowledging import MayRead, ids_error
from coterie.server.share.fetching import ShareFetching, refused
from coterie.server.share.sessions import OPENING_EPOCH, SessionKey, ShareSession


def _may_read_all(_topic: str) -> bool:
    return True


def handle(
    broker: Services,
    request: ShareFetchRequest,
    connection: Exchange,
    may_read: MayRead = _may_read_all,
) -> ShareFetchResponse | None:
    """Answer with the records there are, or wait for more."""
    group_id, member_id = request.group_id, request.member_id
    if not broker.features.serves_share_groups:
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    error = ids_error(group_id, member_id)
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(limits):
        error = ErrorCode.INVALID_REQUEST
    if error or group_id is None or member_id is None:
        return refused(error)
    session = _session(broker, request, (group_id, member_id), connection)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        # The client would ask again at once.
        delayed = DelayedResponse(connection)
        connection.delay_and_mute(delayed)
        wait_s = max(0, request.max_wait_ms) / 1000
        broker.loop.call_later(wait_s, delayed.send, refused(session))
        return None
    if isinstance(session, ErrorCode):
        return refused(session)
    return ShareFetching(broker, request, connection, session, may_read).answer()


def _session(
    broker: Services, request: ShareFetchRequest, key: SessionKey, connection: Exchange
) -> ShareSession | ErrorCode:
    """Return the session of a request, which is opened if that is asked for."""
    share = broker.share
    named = sum(len(topic.partitions) for topic in request.topics)
    is_opening = request.share_session_epoch == OPENING_EPOCH
    if not share.sessions.has_room(named, key if is_opening else None):
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED
    if not is_opening:
        return share.sessions.find(key, request.share_session_epoch)
    if any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions):
        return ErrorCode.INVALID_REQUEST
    session = share.open_session(key, connection)
    return ErrorCode.SHARE_SESSION_LIMIT_REACHED if session is None else session
