"""The topics that a request is about, for the scope of a fault."""

from typing import Any

from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.resources import ResourceType, names_of
from coterie.server.logs.fetch_sessions import INITIAL_EPOCH, FetchSession, SessionPartition
from coterie.server.services import Services


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
    return found


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
