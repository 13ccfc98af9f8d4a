"""From the bytes of a frame to its annotated pieces, header first; or to the decoded message."""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.cli.annotate import WALK_ERRORS, Piece, Walk
from coterie.cli.apis import api_name, known_api
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.frames import decode_request_header, decode_response
from coterie.protocol.wire import Wire

_INT16 = Wire("int16", "h", 2, 0)
_INT32 = Wire("int32", "i", 4, 0)
_LENGTH_BYTES = 4


class Answer(NamedTuple):
    """What a response answers."""

    key: ApiKey
    version: int


def split_frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each frame, length prefix included; all of it when there are no prefixes."""
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + _LENGTH_BYTES], "big", signed=True)
        stop = position + _LENGTH_BYTES + size
        if size < 0 or stop > len(data):
            stop = len(data)
        yield position, stop
        position = stop


def dissect(frame: bytes, answer: Answer | None) -> tuple[list[Piece], str]:
    """The pieces of a frame, and what is wrong behind the last of them ("" if nothing is).

    Args:
        frame: with or without its length prefix.
        answer: what it answers; None for a request.
    """
    walk = Walk(frame, 0, len(frame))
    try:
        if _has_prefix(frame, answer):
            walk.fixed(_INT32, "size")
        if answer is None:
            _request(walk)
        else:
            _response(walk, answer)
    except WALK_ERRORS as error:
        return walk.pieces, str(error)
    return walk.pieces, ""


def decoded(frame: bytes, answer: Answer | None, jsonable: Callable[[Any], Any]) -> dict[str, Any]:
    """The header and the message of a frame.

    Raises:
        WALK_ERRORS: the compiled codec refuses it.
    """
    start = _LENGTH_BYTES if _has_prefix(frame, answer) else 0
    if answer is not None:
        cls = response_class(answer.key)
        correlation_id, message = decode_response(cls, frame[start:], answer.version)
        about = {"api": api_name(answer.key), "version": answer.version}
        return {**about, "correlation_id": correlation_id, "message": jsonable(message)}
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


def _has_prefix(frame: bytes, answer: Answer | None) -> bool:
    """Whether a frame begins with its length: it does if that is its length, or if it is a request
    that was cut or padded, and makes sense with a prefix only.
    """
    size = int.from_bytes(frame[:_LENGTH_BYTES], "big", signed=True)
    if size == len(frame) - _LENGTH_BYTES:
        return True
    return answer is None and not _is_request(frame) and _is_request(frame[_LENGTH_BYTES:])


def _is_request(frame: bytes) -> bool:
    """Whether the bytes begin with an api key and a version of it."""
    try:
        known_api(*struct.unpack_from(">hh", frame))
    except WALK_ERRORS:
        return False
    return True


def _request(walk: Walk) -> None:
    number = walk.fixed(_INT16, "api_key")
    version = walk.fixed(_INT16, "api_version")
    cls = request_class(known_api(number, version))
    walk.fixed(_INT32, "correlation_id")
    walk.short_string("client_id")
    if cls.has_flexible_header(version):
        walk.no_tags()
    walk.message(cls, version)


def _response(walk: Walk, answer: Answer) -> None:
    cls = response_class(answer.key)
    walk.fixed(_INT32, "correlation_id")
    if cls.has_flexible_header(answer.version):
        walk.no_tags()
    walk.message(cls, answer.version)
