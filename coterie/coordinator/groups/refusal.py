"""Refusals: an error of a request with the text that Kafka sends."""

from coterie.protocol.errors import ErrorCode


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


def invalid(text: str) -> Refusal:
    """Return the refusal of a request whose fields are not valid."""
    return Refusal(ErrorCode.INVALID_REQUEST, text)
