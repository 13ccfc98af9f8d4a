"""Frames and headers (spec section 1): what stands around a message on a connection.

A frame is an int32 length and that many bytes: header, then body. The request header is version 2
(a tag section behind the client id) where the message is flexible, else version 1; the response
header is version 1 or 0 likewise, but always 0 for ApiVersions, whose answer a client reads before
it knows which versions its broker speaks.

This is the client's side and the reference for both. The server's connection has an inlined path
for what nearly every request looks like, and calls this for the rest. Nothing is allocated by a
length that a peer claims: four bytes are enough to refuse a frame.
"""

import struct
from typing import NamedTuple, TypeVar

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import skip_tags
from coterie.protocol.wire import Message

# Kafka's socket.request.max.bytes. Answers have no limit of Kafka's own; fetches stay below it too.
MAX_FRAME_BYTES = 104_857_600

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
_REQUEST_NAMED = struct.Struct(">ihhih")
_CORRELATION_ID = struct.Struct(">i")

_M = TypeVar("_M", bound=Message)


class RequestHeader(NamedTuple):
    """What a request says about itself. Unknown api keys are kept as numbers."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A whole request frame, length prefix included.

    Args:
        message: a request of an API.
        version: one of its versions; decides the header's version too.
        correlation_id: int32 that the answer will repeat.
        client_id: at most 32767 bytes of UTF-8; None is sent as null.
    """
    cls = type(message)
    assert cls.api_key is not None, f"{cls.__name__} is no request"
    name = b"" if client_id is None else client_id.encode()
    tags = b"\x00" if cls.has_flexible_header(version) else b""
    body = message.encode(version)
    head = _REQUEST_NAMED.pack(
        _REQUEST.size + len(name) + len(tags) + len(body),
        cls.api_key,
        version,
        correlation_id,
        -1 if client_id is None else len(name),
    )
    return b"".join((head, name, tags, body))


def decode_request_header(
    buffer: bytes, position: int, end: int, *, flexible: bool
) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    Args:
        buffer: where the frame stands, perhaps among others.
        position: of the api key, right behind the length prefix.
        end: of the frame.
        flexible: whether the api key and version are those of a flexible message; they are the
            first four bytes.

    Raises:
        MalformedFrame: the header does not fit the frame, or is not well-formed.
    """
    if end - position < _REQUEST.size:
        raise MalformedFrame(f"a request of {end - position} bytes has no room for a header")
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
    """The correlation id of an answer and the position of its body; arguments as for requests.

    For ApiVersions `flexible` is False in every version.

    Raises:
        MalformedFrame: the header does not fit the frame, or is not well-formed.
    """
    if end - position < _CORRELATION_ID.size:
        raise MalformedFrame(f"a response of {end - position} bytes has no room for a header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
    position += _CORRELATION_ID.size
    if flexible:
        try:
            position = _after_tags(buffer, position, end)
        except IndexError as error:
            raise MalformedFrame(f"response header: {error}") from error
    return correlation_id, position


def decode_response(cls: type[_M], frame: bytes, version: int) -> tuple[int, _M]:
    """A whole answer, without its length prefix: (correlation id, message).

    Raises:
        MalformedFrame: the bytes are no answer of that class and version.
    """
    flexible = cls.has_flexible_header(version)
    correlation_id, position = decode_response_header(frame, 0, len(frame), flexible=flexible)
    return correlation_id, cls.decode(frame, version, position)


def _after_tags(buffer: bytes, position: int, end: int) -> int:
    """Step over a header's tag section; no Kafka version has defined a tag for one."""
    if position >= end:
        raise MalformedFrame("a flexible header ends before its tags")
    position = skip_tags(buffer, position + 1, end, buffer[position])
    if position > end:
        raise MalformedFrame(f"a header's tags end at byte {position}, the frame at {end}")
    return position


class FrameBuffer:
    """Cuts a stream of bytes into frames.

    Append what was read, then take frames until there is none. It holds at most one unfinished
    frame and one read, and knows the claimed length before it holds anything of the frame.
    """

    def __init__(self, max_size: int = MAX_FRAME_BYTES) -> None:
        """Refuse frames of more than `max_size` bytes."""
        self.max_size = max_size
        self._buffer = bytearray()
        self._taken = 0

    def append(self, data: bytes) -> None:
        """Add bytes in the order they were read."""
        if self._taken:
            del self._buffer[: self._taken]
            self._taken = 0
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, without its length prefix; None until more has been read.

        Raises:
            MalformedFrame: the next length is negative or above the maximum; the stream has no
                further frames, and asking again says the same.
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
        with memoryview(self._buffer) as view:  # one copy, which matters for large fetches
            return bytes(view[start:stop])
