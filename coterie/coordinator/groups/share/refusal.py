"""The answers to heartbeats of share groups that are refused."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


def heartbeat_error(error: ErrorCode, text: str | None = None) -> ShareGroupHeartbeatResponse:
    """Return the response to a ShareGroupHeartbeat that is refused."""
    return ShareGroupHeartbeatResponse(error_code=error, error_message=text)


def heartbeat_error_response(_: Any, error: ErrorCode, __: int) -> ShareGroupHeartbeatResponse:
    """Return the response that carries nothing but an error."""
    return heartbeat_error(error)
