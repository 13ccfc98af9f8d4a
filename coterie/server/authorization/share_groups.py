"""What requests of share groups need, where the declaration does not say all [security/groups]."""

from typing import Any

from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.describe import describe_error
from coterie.coordinator.groups.share.refusal import heartbeat_error
from coterie.coordinator.groups.share.validation import check_member_id
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponseGroup,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, check_elements
from coterie.server.authorization.groups import HIDDEN_TOPICS, set_operations
from coterie.server.authorization.outcome import Allowed, Outcome, answered
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP = ResourceType.GROUP
_DESCRIBED = Need(0, _GROUP, AclOperation.DESCRIBE, ("group_ids", ""))


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
        return answered(heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    try:
        check_member_id(request)
    except Refusal as refusal:
        return answered(heartbeat_error(refusal.error, refusal.text))
    for name in set(request.subscribed_topic_names or ()):
        if not access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return answered(heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return None


def share_group_describe(
    broker: Services,
    access: ClientAccess,
    request: ShareGroupDescribeRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for DESCRIBE on each group, and on every topic in it."""
    request.group_ids = list(dict.fromkeys(request.group_ids))
    if not broker.features.serves_share_groups:
        return None
    outcome = check_elements(broker, access, request, connection, _DESCRIBED)

    def complete(response: Any) -> Any:
        response.groups = [_visible(access, group) for group in response.groups]
        if request.include_authorized_operations:
            set_operations(access, response.groups)
        return response if outcome is None else outcome.complete(response)

    return Allowed(complete)


def _visible(
    access: ClientAccess, group: ShareGroupDescribeResponseGroup
) -> ShareGroupDescribeResponseGroup:
    names = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    if all(access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)):
        return group
    return describe_error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
