"""What requests of share groups need, where the declaration does not say all [security/groups]."""

from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.describe import describe_error
from coterie.coordinator.groups.share.refusal import heartbeat_error
from coterie.coordinator.groups.share.validation import check_member_id
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.groups import describe_by_id
from coterie.server.authorization.outcome import Outcome, answered
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP = ResourceType.GROUP


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
    is_served = broker.features.serves_share_groups
    return describe_by_id(broker, access, request, connection, describe_error, is_served=is_served)
