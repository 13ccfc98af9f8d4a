"""The client's end of a connection in memory: takes the frames that the broker writes."""

import asyncio
from collections.abc import Callable
from typing import Any

from coterie.protocol.frames import FrameBuffer


class ClientEnd(asyncio.Transport):
    """What a broker writes to; requests are passed to its `Connection` directly."""

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
        super().__init__()
        self._peer = peer
        self._answered = answered
        self._closed = closed
        self._frames = FrameBuffer()
        self._is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the address of the client."""
        return self._peer if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Keep what is called when the connection ends."""
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: frames are taken at once."""

    def get_write_buffer_size(self) -> int:
        """Return 0: frames are taken at once."""
        return 0

    def pause_reading(self) -> None:
        """Do nothing: the broker keeps what it does not read."""

    def resume_reading(self) -> None:
        """Do nothing; see `pause_reading`."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take the frames."""
        self._frames.append(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            self._answered(frame)

    def is_closing(self) -> bool:
        """Return whether the connection was closed."""
        return self._is_closed

    def close(self) -> None:
        """Close the connection."""
        if not self._is_closed:
            self._is_closed = True
            self._closed()
            self._protocol.connection_lost(None)

    abort = close
