"""The answers to requests of share groups that change offsets and are refused as a whole."""

from typing import Any

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from coterie.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse


def offsets_error(
    request: Any, error: ErrorCode, _version: int = 0, text: str | None = None
) -> AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse:
    """Return the response to a request that changes offsets and is refused, with Kafka's text.

    Args:
        request: an AlterShareGroupOffsets or a DeleteShareGroupOffsets.
        error: the error.
        text: the text, if it is not that of the error.
    """
    text = DEFAULT_MESSAGES.get(error) if text is None else text
    if isinstance(request, AlterShareGroupOffsetsRequest):
        return AlterShareGroupOffsetsResponse(error_code=error, error_message=text, responses=[])
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=text, responses=[])
