"""A connection of a check to a broker: frames out, and what comes back into an inbox.

A check may send what no client library sends, so nothing here corrects a request. Invariant: each
frame, and the end of the connection, is put into the inbox once, in the order of its arrival.
"""

import asyncio
import struct
import time
from typing import NamedTuple

from coterie.address import Address
from coterie.client.event_loop import connect
from coterie.client.security import Security
from coterie.conversation.syntax import TranscriptError
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import FrameBuffer, encode_request_header
from coterie.protocol.wire import Message

_LENGTH = struct.Struct(">i")
_NO_TAGS = b"\0"
# The options of `wire={...}`.
_OPTIONS = frozenset(
    {
        "append",
        "cut",
        "length",
        "split",
        "client_id",
        "tags",
        "correlation",
        "api_key",
        "version",
        "answer",
    }
)


class RefusedError(Exception):
    """The broker refuses what a check needs, such as the creation of a topic."""


class Arrival(NamedTuple):
    """What came on a connection: a frame without its length; None at its end."""

    connection: "CheckConnection"
    frame: bytes | None


Inbox = asyncio.Queue[Arrival]


class CheckConnection(asyncio.Protocol):
    """One connection of one client.

    Attributes:
        name: of the client in the transcript.
        is_open: whether neither side has closed it.
        heard_s: when the broker sent something last, by time.monotonic; 0 before.
    """

    def __init__(self, name: str, inbox: Inbox) -> None:
        """Deliver what comes to an inbox."""
        self.name = name
        self.is_open = True
        self.heard_s = 0.0
        self._inbox = inbox
        self._frames = FrameBuffer()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls, name: str, address: Address, inbox: Inbox, security: Security
    ) -> "CheckConnection":
        """Connect to a broker, and log in."""
        return await connect(lambda: cls(name, inbox), address, security)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport), transport
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Put every complete frame into the inbox; a wrong length ends the connection."""
        self.heard_s = time.monotonic()
        self._frames.append(data)
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._inbox.put_nowait(Arrival(self, frame))
        except MalformedFrame:
            self.close()
            self._inbox.put_nowait(Arrival(self, None))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Report that the broker has closed the connection."""
        if self.is_open:
            self.is_open = False
            self._inbox.put_nowait(Arrival(self, None))

    def send(self, data: bytes, piece_bytes: int = 0) -> None:
        """Send bytes, all at once or in pieces."""
        assert self._transport is not None, "the connection was never made"
        if not piece_bytes:
            self._transport.write(data)
            return
        for start in range(0, len(data), piece_bytes):
            self._transport.write(data[start : start + piece_bytes])

    def close(self) -> None:
        """Close the connection; nothing more is reported."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


def request_frame(
    message: Message, version: int, number: int, client_id: str | None, options: dict[str, str]
) -> bytes:
    """Return the frame of a request, with the distortions of `wire={...}`.

    Args:
        message: the request.
        version: the version to encode it in.
        number: the correlation id.
        client_id: of the header; None for null.
        options: `append` and `cut` change the end of the body, `api_key`, `version` and `length`
            the numbers in front, `tags` the tagged fields of the header. The driver uses `split`,
            `correlation` and `answer`, the version of the response.

    Raises:
        TranscriptError: there is no such option.
    """
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TranscriptError(f"unknown in wire: {', '.join(sorted(unknown))}")
    if "client_id" in options:
        client_id = None if options["client_id"] == "null" else options["client_id"].strip('"')
    header = encode_request_header(type(message), version, number, client_id)
    if "tags" in options:
        assert message.has_flexible_header(version), "only a flexible header has tags"
        header = header.removesuffix(_NO_TAGS) + bytes.fromhex(options["tags"].removeprefix("0x"))
    key = int(options.get("api_key", message.api_key or 0))
    claimed = int(options.get("version", version))
    header = struct.pack(">hh", key, claimed) + header[4:]
    body = message.encode(version) + bytes.fromhex(options.get("append", "").removeprefix("0x"))
    frame = header + body
    frame = frame[: len(frame) - int(options.get("cut", "0"))]
    length = len(frame)
    if "length" in options:
        length += int(options["length"])
    return _LENGTH.pack(length) + frame
