"""The groups and topics that a request is about, for the scope of a fault."""

from collections.abc import Iterator
from typing import Any

from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.fetch_sessions import INITIAL_EPOCH, FetchSession, SessionPartition
from coterie.server.services import Services

# The fields in which requests list topics.
_LISTS = ("topics", "topic_data", "topic_names")


def groups_of(request: Any) -> set[str]:
    """Return the group ids in a request."""
    listed = getattr(request, "groups", None) or getattr(request, "groups_names", None) or ()
    found = {each if isinstance(each, str) else each.group_id for each in listed}
    found |= set(getattr(request, "coordinator_keys", None) or ())
    found |= {getattr(request, "group_id", ""), getattr(request, "key", "")}
    return found


def topics_of(request: Any, broker: Services) -> set[str]:
    """Return the names of the topics in a request, of all topics if it is about all of them.

    New versions name topics by their ids, and a fetch goes on with those of its session.
    """
    if isinstance(request, MetadataRequest) and request.topics is None:
        return set(broker.topics.by_name)
    found = set(_named(request, broker))
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


def _named(request: Any, broker: Services) -> Iterator[str]:
    for field in _LISTS:
        for each in getattr(request, field, None) or ():
            if isinstance(each, str):
                yield each
                continue
            topic_id = getattr(each, "topic_id", ZERO_UUID)
            by_id = broker.topics.by_id.get(topic_id)
            if by_id is not None:
                yield by_id.name
            else:
                yield getattr(each, "name", None) or getattr(each, "topic", None) or ""
