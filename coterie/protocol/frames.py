"""Frames and headers: the bytes around a message on a connection.

A frame is an int32 length followed by that many bytes: a header and a body [framing/frame-length].
This module is the client's side and the reference for both sides. The server's connection reads
request headers with code of its own, in the loop that handles requests.

A length that a peer claims never allocates memory: the four length bytes suffice to refuse a frame.
"""

import struct
from typing import NamedTuple, TypeVar

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import skip_tags
from coterie.protocol.wire import Message

# The default of socket.request.max.bytes. Kafka has no limit for responses; fetches stay below this
# one too.
MAX_FRAME_BYTES = 104_857_600

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_CORRELATION_ID = struct.Struct(">i")

_M = TypeVar("_M", bound=Message)


class RequestHeader(NamedTuple):
    """The header of a request; the API key is a number, because it may be unknown."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


def encode_request_header(
    cls: type[Message], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request of class `cls` [framing/request-header].

    Args:
        cls: the class of the request.
        version: one of its versions, which also decides the version of the header.
        correlation_id: an int32 that the response will repeat.
        client_id: at most 32,767 bytes of UTF-8; None is sent as null.
    """
    assert cls.api_key is not None, f"{cls.__name__} is not a request"
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    fixed = _REQUEST.pack(cls.api_key, version, correlation_id, length)
    return fixed + name + (b"\x00" if cls.has_flexible_header(version) else b"")


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the whole frame of a request, with its length; for the arguments see the header."""
    header = encode_request_header(type(message), version, correlation_id, client_id)
    body = message.encode(version)
    return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))


def decode_request_header(
    buffer: bytes, position: int, end: int, *, flexible: bool
) -> tuple[RequestHeader, int]:
    """Decode the header of a request; return it and the position of the body.

    For the client id see [framing/request-header].

    Args:
        buffer: bytes that contain the frame.
        position: index of the API key, which follows the frame's length.
        end: index after the frame.
        flexible: whether the header has tagged fields. The API key and the version decide this;
            they are the first four bytes.

    Raises:
        MalformedFrame: the header does not fit the frame, or is not well-formed.
    """
    if end - position < _REQUEST.size:
        raise MalformedFrame(f"a request of {end - position} bytes is too short for a header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(buffer, position)
    position += _REQUEST.size
    stop = position + length if length >= 0 else position
    if length < -1 or stop > end:
        raise MalformedFrame(f"client_id claims {length} bytes where {end - position} are left")
    try:
        client_id = None if length < 0 else buffer[position:stop].decode()
        if flexible:
            stop = _after_tags(buffer, stop, end)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id), stop


def decode_response_header(
    buffer: bytes, position: int, end: int, *, flexible: bool
) -> tuple[int, int]:
    """Decode the header of a response; return the correlation id and the position of the body.

    For the format see [framing/request-header].

    Args:
        buffer: bytes that contain the frame.
        position: index of the correlation id, which follows the frame's length.
        end: index after the frame.
        flexible: whether the header has tagged fields (`Message.has_flexible_header`).

    Raises:
        MalformedFrame: the header does not fit the frame, or is not well-formed.
    """
    if end - position < _CORRELATION_ID.size:
        raise MalformedFrame(f"a response of {end - position} bytes is too short for a header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
    position += _CORRELATION_ID.size
    if flexible:
        try:
            position = _after_tags(buffer, position, end)
        except IndexError as error:
            raise MalformedFrame(f"response header: {error}") from error
    return correlation_id, position


def decode_response(cls: type[_M], frame: bytes, version: int) -> tuple[int, _M]:
    """Decode a response frame without its length; return the correlation id and the message.

    Raises:
        MalformedFrame: the bytes are not a response of that class and version.
    """
    flexible = cls.has_flexible_header(version)
    correlation_id, position = decode_response_header(frame, 0, len(frame), flexible=flexible)
    return correlation_id, cls.decode(frame, version, position)


def _after_tags(buffer: bytes, position: int, end: int) -> int:
    """Skip a header's tagged fields; no Kafka release has defined one."""
    if position >= end:
        raise MalformedFrame("a flexible header ends before its tags")
    position = skip_tags(buffer, position + 1, end, buffer[position])
    if position > end:
        raise MalformedFrame(f"a header's tags end at byte {position}, the frame at {end}")
    return position


class FrameBuffer:
    """Cuts a stream of bytes into frames.

    Append the bytes of each read, then take frames until there is none. The buffer holds at most
    one incomplete frame and one read, and checks a frame's length before it holds any of its bytes.
    """

    def __init__(self, max_size: int = MAX_FRAME_BYTES) -> None:
        """Refuse frames of more than `max_size` bytes."""
        self.max_size = max_size
        self._buffer = bytearray()
        self._taken = 0

    def append(self, data: bytes | bytearray) -> None:
        """Append the bytes of a read."""
        if self._taken:
            del self._buffer[: self._taken]
            self._taken = 0
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """Take the next complete frame, without its length; None if more bytes are needed.

        Raises:
            MalformedFrame: the next length is negative or above the maximum. No further frame can
                be read; every later call raises too.
        """
        start = self._taken + _LENGTH.size
        if len(self._buffer) < start:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, self._taken)
        if not 0 <= length <= self.max_size:
            raise MalformedFrame(f"a frame claims {length} bytes, at most {self.max_size} are read")
        stop = start + length
        if len(self._buffer) < stop:
            return None
        self._taken = stop
        with memoryview(self._buffer) as view:  # one copy only, which matters for large fetches
            return bytes(view[start:stop])
