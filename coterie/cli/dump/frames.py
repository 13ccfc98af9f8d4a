"""Frames of the protocol, header included: taken apart into pieces, or decoded."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.cli.dump.apis import api_name, known_api
from coterie.cli.dump.message_fields import INT16, INT32, MessageFields, Piece
from coterie.client.message_json import jsonable
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.frames import decode_request_header, decode_response

_LENGTH_BYTES = 4


class ResponseTo(NamedTuple):
    """The API and version of the request that a response answers."""

    key: ApiKey
    version: int


def split_frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Return the start and end of each frame, its length prefix included.

    Data that does not begin with a fitting length prefix is taken as one frame.
    """
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + _LENGTH_BYTES], "big", signed=True)
        stop = position + _LENGTH_BYTES + size
        if size < 0 or stop > len(data):
            stop = len(data)
        yield position, stop
        position = stop


def frame_pieces(frame: bytes, request: ResponseTo | None) -> tuple[list[Piece], str]:
    """Return the pieces of a frame: its bytes and the fields that they encode.

    Args:
        frame: the frame with or without its length prefix.
        request: what the frame responds to; None if the frame is a request.

    Returns:
        The pieces, and what is wrong after the last of them ("" if the frame is well-formed).
    """
    fields = MessageFields(frame, 0, len(frame))
    try:
        if _has_prefix(frame, request):
            fields.add_fixed(INT32, "size")
        if request is None:
            _add_request(fields)
        else:
            _add_response(fields, request)
    except DECODE_ERRORS as error:
        return fields.pieces, str(error)
    return fields.pieces, ""


def decode_frame(frame: bytes, request: ResponseTo | None) -> dict[str, Any]:
    """Decode the header and the message of a frame, as `coterie dump frame --json` prints them.

    Raises:
        DECODE_ERRORS: the frame is malformed.
    """
    start = _LENGTH_BYTES if _has_prefix(frame, request) else 0
    if request is not None:
        cls = response_class(request.key)
        correlation_id, response = decode_response(cls, frame[start:], request.version)
        return {
            "api": api_name(request.key),
            "version": request.version,
            "correlation_id": correlation_id,
            "message": jsonable(response),
        }
    number, version = struct.unpack_from(">hh", frame, start)
    key = known_api(number, version)
    cls = request_class(key)
    flexible = cls.has_flexible_header(version)
    header, position = decode_request_header(frame, start, len(frame), flexible=flexible)
    return {
        "api": api_name(key),
        "version": version,
        "correlation_id": header.correlation_id,
        "client_id": header.client_id,
        "message": jsonable(cls.decode(frame[position:], version)),
    }


def _has_prefix(frame: bytes, request: ResponseTo | None) -> bool:
    """Return whether a frame begins with its length.

    It does if the first four bytes are its length. A request that is too short or too long has a
    prefix if it can only be read as a request with the first four bytes left out.
    """
    size = int.from_bytes(frame[:_LENGTH_BYTES], "big", signed=True)
    if size == len(frame) - _LENGTH_BYTES:
        return True
    return request is None and not _is_request(frame) and _is_request(frame[_LENGTH_BYTES:])


def _is_request(frame: bytes) -> bool:
    """Return whether the bytes begin with a known api key and version."""
    try:
        known_api(*struct.unpack_from(">hh", frame))
    except DECODE_ERRORS:
        return False
    return True


def _add_request(fields: MessageFields) -> None:
    number = fields.add_fixed(INT16, "api_key")
    version = fields.add_fixed(INT16, "api_version")
    cls = request_class(known_api(number, version))
    fields.add_fixed(INT32, "correlation_id")
    fields.add_short_string("client_id")
    if cls.has_flexible_header(version):
        fields.add_empty_tags()
    fields.add_message(cls, version)


def _add_response(fields: MessageFields, request: ResponseTo) -> None:
    cls = response_class(request.key)
    fields.add_fixed(INT32, "correlation_id")
    if cls.has_flexible_header(request.version):
        fields.add_empty_tags()
    fields.add_message(cls, request.version)
