"""The answers to heartbeats of consumer groups that are refused."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


def heartbeat_error(error: ErrorCode, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a ConsumerGroupHeartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=text)


def heartbeat_error_response(_: Any, error: ErrorCode, __: int) -> ConsumerGroupHeartbeatResponse:
    """Return the response that carries nothing but an error."""
    return heartbeat_error(error)
