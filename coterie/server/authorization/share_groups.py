"""What requests of share groups need, where the declaration does not say all [security/groups]."""

from collections.abc import Callable

from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.validation import check_member_id
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseTopic,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.resources import ResourceType
from coterie.protocol.wire import ZERO_UUID
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, declared_check, refused_of
from coterie.server.authorization.outcome import Allowed, Outcome, answered
from coterie.server.handlers.share_offsets import refused_group, without_offset
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP = ResourceType.GROUP
_TOPIC_DESCRIBE = Need(1, ResourceType.TOPIC, AclOperation.DESCRIBE, ("topics", "topic_name"))
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ALTER = declared_check(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0)
# Completes the topics of a group in a response.
_Topics = Callable[
    [list[DescribeShareGroupOffsetsResponseTopic]], list[DescribeShareGroupOffsetsResponseTopic]
]


def share_group_heartbeat(
    broker: Services,
    access: ClientAccess,
    request: ShareGroupHeartbeatRequest,
    _connection: Exchange,
) -> Outcome:
    """Ask for READ, and for DESCRIBE on every topic to which the member subscribes."""
    if not broker.features.serves_share_groups:
        return None
    if not access.may(AclOperation.READ, _GROUP, request.group_id):
        return answered(heartbeat_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    try:
        check_member_id(request)
    except Refusal as refusal:
        return answered(heartbeat_error(request, refusal.error, text=refusal.text))
    for name in set(request.subscribed_topic_names or ()):
        if not access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return answered(heartbeat_error(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return None


def describe_share_group_offsets(
    broker: Services,
    access: ClientAccess,
    request: DescribeShareGroupOffsetsRequest,
    _connection: Exchange,
) -> Outcome:
    """Ask for DESCRIBE on each group, and on each topic that is named or found."""
    if not broker.features.serves_share_groups:
        return None
    groups = request.groups
    allowed = [access.may(AclOperation.DESCRIBE, _GROUP, each.group_id) for each in groups]
    request.groups = [each for each, may in zip(groups, allowed, strict=True) if may]
    topics = [_topics(broker, access, each) for each in request.groups]

    def complete(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group, completed in zip(response.groups, topics, strict=True):
            if not group.error_code:
                group.topics = completed(group.topics)
        found = iter(response.groups)
        response.groups = [
            next(found)
            if may
            else refused_group(each.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for each, may in zip(groups, allowed, strict=True)
        ]
        return response

    return Allowed(complete)


def _topics(
    broker: Services, access: ClientAccess, asked: DescribeShareGroupOffsetsRequestGroup
) -> _Topics:
    """Take the refused topics out of a group of a request; return what completes its response."""
    if asked.topics is None:
        return lambda found: [
            each
            for each in found
            if access.may_quietly(AclOperation.DESCRIBE, ResourceType.TOPIC, each.topic_name)
        ]
    out = refused_of(broker, access, _TOPIC_DESCRIBE, asked.topics)
    if not out:
        return lambda found: found
    pairs = list(zip(asked.topics, out, strict=True))
    asked.topics = [each for each, gone in pairs if not gone]
    parts = [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=each.topic_name,
            topic_id=ZERO_UUID,
            partitions=[without_offset(index, _DENIED) for index in each.partitions],
        )
        for each, gone in pairs
        if gone
    ]
    return lambda found: found + parts


def alter_share_group_offsets(
    broker: Services,
    access: ClientAccess,
    request: AlterShareGroupOffsetsRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for what is declared; topics that are refused have their ids, as in Kafka."""
    outcome = _ALTER(broker, access, request, connection)
    if not isinstance(outcome, Allowed):
        return outcome
    by_name = broker.topics.by_name

    def complete(response: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
        outcome.complete(response)
        for each in response.responses:
            if each.topic_id == ZERO_UUID and each.topic_name in by_name:
                each.topic_id = by_name[each.topic_name].topic_id
        return response

    return Allowed(complete)
