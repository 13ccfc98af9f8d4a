"""Refusals: an error of a request with the text that Kafka sends."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class Refusal(Exception):  # noqa: N818 - it describes the answer
    """A request of a member is refused. A verb raises it before it has done anything.

    Attributes:
        error: the error.
        text: the text for people; None if the error says enough.
    """

    def __init__(self, error: ErrorCode, text: str | None = None) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text


def heartbeat_error(error: ErrorCode, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a ConsumerGroupHeartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=text)


def heartbeat_error_response(_: Any, error: ErrorCode, __: int) -> ConsumerGroupHeartbeatResponse:
    """Return the response that carries nothing but an error."""
    return heartbeat_error(error)
