"""ShareGroupHeartbeat and ShareGroupDescribe, which the group coordinator answers."""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.share.describe import describe_error
from coterie.coordinator.groups.share.refusal import heartbeat_error
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.wire import Message
from coterie.server.handlers.many_groups import GROUPS_TOGETHER, PartedRequest, parts_of
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def heartbeat(
    broker: Services, request: ShareGroupHeartbeatRequest, connection: Exchange
) -> ShareGroupHeartbeatResponse | None:
    """Join a share group, keep in it, or leave it."""
    if not broker.features.serves_share_groups:
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    coordinator = broker.coordinator
    now_ms, client = connection.now_ms, connection.client
    response = coordinator.unchanged_share_heartbeat(now_ms, request, client)
    if response is not None:
        return response
    return broker.groups.submit(coordinator.share_group_heartbeat, request, connection)


def describe(
    broker: Services, request: ShareGroupDescribeRequest, connection: Exchange
) -> ShareGroupDescribeResponse | None:
    """Describe share groups, each once [administration/describe-named-twice]."""
    groups = request.group_ids = list(dict.fromkeys(request.group_ids))
    if not broker.features.serves_share_groups:
        error = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupDescribeResponse(groups=[describe_error(each, error) for each in groups])
    verb = broker.coordinator.share_group_describe
    if len(groups) > GROUPS_TOGETHER:
        parted = PartedRequest(
            broker,
            connection,
            verb,
            lambda parts: ShareGroupDescribeResponse(
                groups=[one for each in parts for one in each.groups]
            ),
        )
        parted.submit(
            [
                ShareGroupDescribeRequest(
                    group_ids=part,
                    include_authorized_operations=request.include_authorized_operations,
                )
                # Those without an id come first, as in Kafka.
                for part in parts_of(sorted(groups, key=bool))
            ]
        )
        return None
    return broker.groups.submit(verb, request, connection)


HANDLERS: dict[ApiKey, Callable[[Any, Any, Any], Message | None]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe,
}
