"""The answers to heartbeats that are refused, of groups of every type whose members send some."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refusal


def heartbeat_error(
    request: Any, error: ErrorCode, _version: int = 0, text: str | None = None
) -> Any:
    """Return the response to a heartbeat that is refused.

    Args:
        request: the heartbeat.
        error: the error.
        text: the text for people.
    """
    # A streams group has a list of statuses, which Kafka leaves empty and not out.
    return refusal(request, error, 0, error_message=text, status=[])
