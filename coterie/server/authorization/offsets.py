"""What requests about the offsets of groups need, where the declaration does not say all."""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.responses import fetch_error_response
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import (
    Need,
    check_elements,
    check_whole,
    refused_of,
)
from coterie.server.authorization.outcome import Allowed, Outcome, answered, refused
from coterie.server.handlers.offset_fetch import refused_topic
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP_READ = Need(0, ResourceType.GROUP, AclOperation.READ, ("group_id",))
_TOPIC_READ = Need(1, ResourceType.TOPIC, AclOperation.READ, ("topics", "name"))
_TOPIC_DESCRIBE = Need(1, ResourceType.TOPIC, AclOperation.DESCRIBE, ("topics", "name"))
_IDS_SINCE = 10
_GROUPS_SINCE = 8

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
# Adds to the topics of a group what was refused, or takes out what may not be seen.
_Topics = Callable[[list[OffsetFetchResponseTopic]], list[OffsetFetchResponseTopic]]


def offset_commit(
    broker: Services, access: ClientAccess, request: OffsetCommitRequest, connection: Exchange
) -> Outcome:
    """Ask for READ on the group and then on each topic.

    As in Kafka, a request of which nothing is left does not reach its group.
    """
    whole = check_whole(access, request, connection, _GROUP_READ)
    if whole is not None:
        return whole
    need = _TOPIC_READ._replace(by_id=connection.version >= _IDS_SINCE)
    part = check_elements(broker, access, request, connection, need)
    if part is None or request.topics:
        return part
    return answered(part.complete(OffsetCommitResponse(topics=[])))


def offset_fetch(
    broker: Services, access: ClientAccess, request: OffsetFetchRequest, connection: Exchange
) -> Outcome:
    """Ask for DESCRIBE on each group and then on each topic."""
    version = connection.version
    if version < _GROUPS_SINCE:
        if not access.may(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
            return answered(fetch_error_response(request, _DENIED, version))
        topics = _of_topics(broker, access, request, version)
        return None if topics is None else Allowed(_of_one_group(topics))
    denied, by_group = set[str](), dict[str, _Topics]()
    groups = list({group.group_id: group for group in request.groups}.values())
    for group in groups:
        if not access.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            denied.add(group.group_id)
        elif (topics := _of_topics(broker, access, group, version)) is not None:
            by_group[group.group_id] = topics
    if not denied and not by_group:
        return None
    if len(denied) == len(groups):
        return refused(request, _DENIED, version)
    request.groups = [each for each in groups if each.group_id not in denied]
    ids = [each.group_id for each in groups]

    def complete(response: Any) -> Any:
        found = iter(response.groups)
        response.groups = [
            _refused_group(group_id)
            if group_id in denied
            else _completed(next(found), by_group.get(group_id))
            for group_id in ids
        ]
        return response

    return Allowed(complete)


def _of_one_group(topics: _Topics) -> Callable[[Any], Any]:
    def complete(response: Any) -> Any:
        if not response.error_code:
            response.topics = topics(response.topics)
        return response

    return complete


def _refused_group(group_id: str) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=_DENIED)


def _completed(group: OffsetFetchResponseGroup, topics: _Topics | None) -> OffsetFetchResponseGroup:
    if topics is not None and not group.error_code:
        group.topics = topics(group.topics)
    return group


def _of_topics(
    broker: Services,
    access: ClientAccess,
    asked: OffsetFetchRequest | OffsetFetchRequestGroup,
    version: int,
) -> _Topics | None:
    """Take the refused topics out of a request, or of a group in it.

    Returns:
        What completes the topics of the response; None for nothing.
    """
    if asked.topics is None:
        return lambda found: [each for each in found if _may_see(broker, access, each)]
    need = _TOPIC_DESCRIBE._replace(by_id=version >= _IDS_SINCE)
    out = refused_of(broker, access, need, asked.topics)
    if not out:
        return None
    pairs = list(zip(asked.topics, out, strict=True))
    asked.topics = [each for each, gone in pairs if not gone]
    parts = [
        refused_topic(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each, gone in pairs if gone
    ]
    return lambda found: found + parts


def _may_see(broker: Services, access: ClientAccess, topic: OffsetFetchResponseTopic) -> bool:
    name = topic.name
    if not name:
        found = broker.topics.by_id.get(topic.topic_id)
        name = "" if found is None else found.name
    return access.may_quietly(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
