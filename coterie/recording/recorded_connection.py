"""Stands between the transport and the connection of a client, and records what passes.

The broker has no code for it: `Broker.around_connections` puts it there, and without a recording
the transport talks to the connection itself.
"""

import asyncio
from typing import Any, cast

from coterie.recording.recorder import Recorder
from coterie.server.network.connection import Connection


class RecordedConnection(asyncio.Protocol):
    """What the transport talks to."""

    def __init__(self, recorder: Recorder, connection: Connection) -> None:
        """Pass everything on to a connection."""
        self._recorder = recorder
        self._connection = connection
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the transport on, which will record what is written."""
        address = transport.get_extra_info("peername")
        peer = f"{address[0]}:{address[1]}" if address else "unknown"
        self._number = self._recorder.opened(peer)
        real = cast("asyncio.Transport", transport)
        self._connection.connection_made(_RecordedTransport(real, self._recorder, self._number))

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on."""
        self._connection.connection_lost(exc)
        self._recorder.closed(self._number)

    def data_received(self, data: bytes) -> None:
        """Record bytes before they are handled."""
        self._recorder.sent(self._number, data, by_client=True)
        self._connection.data_received(data)

    def eof_received(self) -> bool:
        """Pass the end of the client's bytes on."""
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        """Pass on that the client does not read."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._connection.resume_writing()


class _RecordedTransport(asyncio.Transport):
    """What the connection writes to."""

    def __init__(self, real: asyncio.Transport, recorder: Recorder, number: int) -> None:
        super().__init__()
        self._real = real
        self._recorder = recorder
        self._number = number

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._recorder.sent(self._number, bytes(data), by_client=False)
        self._real.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._real.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._real.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._real.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._real.pause_reading()

    def resume_reading(self) -> None:
        self._real.resume_reading()

    def write_eof(self) -> None:
        self._real.write_eof()

    def is_closing(self) -> bool:
        return self._real.is_closing()

    def close(self) -> None:
        self._real.close()

    def abort(self) -> None:
        self._real.abort()
