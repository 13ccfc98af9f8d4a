"""ShareGroupHeartbeat and ShareGroupDescribe, which the group coordinator answers."""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.recorded.refusal import heartbeat_error
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
from coterie.server.handlers.many_groups import described_by_id
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def heartbeat(
    broker: Services, request: ShareGroupHeartbeatRequest, connection: Exchange
) -> ShareGroupHeartbeatResponse | None:
    """Join a share group, keep in it, or leave it."""
    if not broker.features.serves_share_groups:
        not_served: ShareGroupHeartbeatResponse = heartbeat_error(
            request, ErrorCode.UNSUPPORTED_VERSION
        )
        return not_served
    coordinator = broker.coordinator
    now_ms, client = connection.now_ms, connection.client
    response: ShareGroupHeartbeatResponse | None = coordinator.unchanged_heartbeat(
        now_ms, request, client
    )
    if response is not None:
        return response
    return broker.groups.submit(coordinator.share_group_heartbeat, request, connection)


def describe(
    broker: Services, request: ShareGroupDescribeRequest, connection: Exchange
) -> ShareGroupDescribeResponse | None:
    """Describe share groups, each once [administration/describe]."""
    return described_by_id(
        broker,
        connection,
        request,
        broker.coordinator.share_group_describe,
        ShareGroupDescribeResponse,
        is_served=broker.features.serves_share_groups,
    )


HANDLERS: dict[ApiKey, Callable[[Any, Any, Any], Message | None]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe,
}
