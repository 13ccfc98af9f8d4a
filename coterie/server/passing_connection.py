"""A protocol in front of a connection, which passes everything on in both directions.

`Broker.around_connections` puts it between the transport and the connection of a client; without it
the transport talks to the connection itself. Subclasses look at what passes, or hold it back.
"""

import asyncio
from typing import Any, cast

from coterie.server.network.connection import Connection


class PassingConnection(asyncio.Protocol):
    """What the transport talks to.

    Attributes:
        connection: the connection behind it.
        transport: the transport; set when the connection is made.
    """

    transport: asyncio.Transport

    def __init__(self, connection: Connection, behind: asyncio.Protocol | None = None) -> None:
        """Pass everything on to a connection, or to what is already in front of that."""
        self.connection = connection
        self._behind: asyncio.Protocol = connection if behind is None else behind

    # --- for subclasses ---------------------------------------------------------------------------

    def client_sent(self, data: bytes) -> None:
        """Pass bytes of the client on."""
        self._behind.data_received(data)

    def broker_sent(self, data: bytes | bytearray | memoryview) -> None:
        """Pass bytes of the broker on."""
        self.transport.write(data)

    # --- the transport's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass a transport on whose writes come back here."""
        self.transport = cast("asyncio.Transport", transport)
        self._behind.connection_made(_PassingTransport(self.transport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on."""
        self._behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `client_sent`."""
        self.client_sent(data)

    def eof_received(self) -> bool | None:
        """Pass the end of the client's bytes on."""
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        """Pass on that the client does not read."""
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._behind.resume_writing()


class _PassingTransport(asyncio.Transport):
    """What the connection writes to."""

    def __init__(self, real: asyncio.Transport, passing: PassingConnection) -> None:
        super().__init__()
        self._real = real
        self._passing = passing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._passing.broker_sent(data)

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
