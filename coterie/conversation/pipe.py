"""Connections in memory: transports that write to an object of this process.

A broker serves such a transport like one of a socket (`Broker.accept`). A subclass decides what
happens to the bytes.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from coterie.protocol.frames import FrameBuffer

_LENGTH_BYTES = 4


class MemoryTransport(asyncio.Transport):
    """A transport whose peer takes everything at once; a subclass has `write`.

    Attributes:
        protocol: what is called when bytes arrive and when the connection ends; None before
            `set_protocol`.
        reading: whether the protocol reads.
        closed: whether this end was closed.
        aborted: whether it was aborted.
    """

    def __init__(self, peer: tuple[str, int]) -> None:
        """Begin without a protocol, connected with an address."""
        super().__init__()
        self.peer_address = peer
        self.protocol: asyncio.Protocol | None = None
        self.reading = True
        self.closed = False
        self.aborted = False

    def _ended(self) -> None:
        """Do what the first close does."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the address of the peer."""
        return self.peer_address if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Keep what is called from now on."""
        assert isinstance(protocol, asyncio.Protocol), "connections have streams of bytes"
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what is called."""
        assert self.protocol is not None, "an end has a protocol"
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: nothing is queued."""

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing is queued."""
        return 0

    def can_write_eof(self) -> bool:
        """Return False: both directions end together."""
        return False

    def is_reading(self) -> bool:
        """Return whether the protocol reads."""
        return self.reading

    def pause_reading(self) -> None:
        """Note that the protocol does not read."""
        self.reading = False

    def resume_reading(self) -> None:
        """Note that the protocol reads."""
        self.reading = True

    def is_closing(self) -> bool:
        """Return whether this end was closed."""
        return self.closed

    def close(self) -> None:
        """Close the connection."""
        if not self.closed:
            self.closed = True
            self._ended()

    def abort(self) -> None:
        """Close the connection."""
        self.aborted = True
        self.close()


class FrameEnd(MemoryTransport):
    """The end of a client that is no asyncio protocol: frames in, frames out, without delay."""

    def __init__(
        self,
        peer: tuple[str, int],
        answered: Callable[[bytes], None],
        closed: Callable[[], None],
    ) -> None:
        """Begin without a protocol; `Broker.accept` sets it.

        Args:
            peer: the address of the client.
            answered: called with each frame, without its length.
            closed: called once, when either end has closed the connection.
        """
        super().__init__(peer)
        self._answered = answered
        self._closed = closed
        self._frames = FrameBuffer()

    def send(self, frame: bytes) -> None:
        """Pass a frame without its length to the broker, which has accepted the connection."""
        assert self.protocol is not None, "a broker has accepted the connection"
        self.protocol.data_received(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take the frames."""
        self._frames.append(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            self._answered(frame)

    def _ended(self) -> None:
        self._closed()
        if self.protocol is not None:
            self.protocol.connection_lost(None)


class AskingEnd(FrameEnd):
    """The end of a client that has one request at a time."""

    def __init__(self, peer: tuple[str, int]) -> None:
        """Begin without a request; see `FrameEnd`."""
        super().__init__(peer, self._answer, lambda: self._answer(None))
        self._waiting: asyncio.Future[bytes | None] | None = None

    async def ask(self, frame: bytes) -> bytes | None:
        """Send a frame; return the response without its length, or None if the broker closes."""
        if self.closed:
            return None
        self._waiting = asyncio.get_running_loop().create_future()
        self.send(frame)
        return await self._waiting

    def _answer(self, frame: bytes | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(frame)
