"""The answers to requests of streams groups that are refused as a whole."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse


def heartbeat_error(error: ErrorCode, text: str | None = None) -> StreamsGroupHeartbeatResponse:
    """Return the response to a StreamsGroupHeartbeat that is refused."""
    return StreamsGroupHeartbeatResponse(
        error_code=error, error_message=text, member_id="", status=[]
    )


def heartbeat_error_response(_: Any, error: ErrorCode, __: int) -> StreamsGroupHeartbeatResponse:
    """Return the response that carries nothing but an error."""
    return heartbeat_error(error)
