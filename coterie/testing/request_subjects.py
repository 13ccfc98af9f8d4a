"""The topics that a request is about, for the scope of a fault."""

from typing import Any

from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.resources import ResourceType, names_of
from coterie.server.logs.fetch_sessions import INITIAL_EPOCH, FetchSession, SessionPartition
from coterie.server.services import Services
from coterie.server.share.sessions import OPENING_EPOCH, ShareSession


def topics_of(request: Any, broker: Services) -> set[str]:
    """Return the names of the topics in a request, of all topics if it is about all of them.

    New versions name topics by their ids, and a fetch goes on with those of its session.
    """
    if isinstance(request, MetadataRequest) and request.topics is None:
        return set(broker.topics.by_name)
    found = set()
    for each in names_of(request, ResourceType.TOPIC):
        topic = broker.topics.by_id.get(each) if isinstance(each, bytes) else None
        found.add(topic.name if topic is not None else each if isinstance(each, str) else "")
    if isinstance(request, FetchRequest):
        found |= {each.topic for each in session_partitions(request, broker)}
    if isinstance(request, ShareFetchRequest):
        session = share_session(request, broker)
        for topic_id, _ in [] if session is None else session.partitions:
            topic = broker.topics.by_id.get(topic_id)
            found |= set() if topic is None else {topic.name}
    return found


def share_session(
    request: ShareFetchRequest | ShareAcknowledgeRequest, broker: Services
) -> ShareSession | None:
    """Return the session that a request of a share group goes on with."""
    if request.share_session_epoch <= OPENING_EPOCH:
        return None
    return broker.share.sessions.get((request.group_id or "", request.member_id or ""))


def session_partitions(request: FetchRequest, broker: Services) -> list[SessionPartition]:
    """Return the partitions that a fetch reads because its session has them."""
    if request.session_epoch <= INITIAL_EPOCH:
        return []
    for uses_ids in (True, False):
        session = broker.fetch_sessions.find(
            request.session_id, request.session_epoch, uses_topic_ids=uses_ids
        )
        if isinstance(session, FetchSession):
            return list(session.partitions.values())
    return []
