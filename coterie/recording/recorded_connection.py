"""Stands between the transport and the connection of a client, and records what passes."""

import asyncio

from coterie.recording.recorder import Recorder
from coterie.server.network.connection import Connection
from coterie.server.passing_connection import PassingConnection


class RecordedConnection(PassingConnection):
    """What the transport talks to."""

    def __init__(
        self, recorder: Recorder, connection: Connection, node_id: int | None = None
    ) -> None:
        """Pass everything on to a connection; `node_id` names its broker if there are several."""
        super().__init__(connection)
        self._node_id = node_id
        self._recorder = recorder
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the connection, and pass it on."""
        address = transport.get_extra_info("peername")
        peer = f"{address[0]}:{address[1]}" if address else "unknown"
        self._number = self._recorder.opened(peer, self._node_id)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on, and record it."""
        super().connection_lost(exc)
        self._recorder.closed(self._number)

    def client_sent(self, data: bytes) -> None:
        """Record bytes before they are handled."""
        self._recorder.sent(self._number, data, by_client=True)
        super().client_sent(data)

    def broker_sent(self, data: bytes | bytearray | memoryview) -> None:
        """Record bytes before they are sent."""
        self._recorder.sent(self._number, bytes(data), by_client=False)
        super().broker_sent(data)
