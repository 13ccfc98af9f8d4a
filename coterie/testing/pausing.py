"""Brokers that are paused, as SIGSTOP pauses a process: connections stay, and nothing passes.

What clients send meanwhile waits, and so does what the broker would have answered. The timers of
its coordinators stand still, so no session ends for want of heartbeats that have arrived.
"""

import asyncio
from collections.abc import Iterable

from coterie.server.broker import Broker
from coterie.server.network.connection import Connection
from coterie.server.passing_connection import PassingConnection


class Gate:
    """The gate in front of one broker.

    Attributes:
        is_closed: whether the broker is paused.
    """

    def __init__(self, broker: Broker) -> None:
        """Stand in front of all connections of a broker, and let everything pass.

        What stands there already, such as a recording, is behind the gate: it sees what passes when
        it passes.
        """
        self.is_closed = False
        self._broker = broker
        self._around_before = broker.around_connections
        # In the order in which they were made, so that a seed gives the same order again.
        self._connections: dict[GatedConnection, None] = {}
        broker.around_connections = self._around

    def _around(self, connection: Connection) -> asyncio.Protocol:
        before = self._around_before
        return GatedConnection(self, connection, None if before is None else before(connection))

    def close(self) -> None:
        """Pause the broker."""
        self.is_closed = True
        for runtime in self._broker.runtimes:
            runtime.hold_timer()

    def open(self) -> None:
        """Let the broker go on: first with what clients have sent, then with its timers."""
        self.is_closed = False
        for connection in list(self._connections):
            connection.pass_held()
        for runtime in self._broker.runtimes:
            runtime.release_timer()

    def made(self, connection: "GatedConnection") -> None:
        """Note a connection."""
        self._connections[connection] = None

    def lost(self, connection: "GatedConnection") -> None:
        """Forget a connection."""
        self._connections.pop(connection, None)


class GatedConnection(PassingConnection):
    """A connection through a gate."""

    def __init__(self, gate: Gate, connection: Connection, behind: asyncio.Protocol | None) -> None:
        """Pass everything on while the gate is open."""
        super().__init__(connection, behind)
        self._gate = gate
        self._of_client: list[bytes] = []
        self._of_broker: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection on: the system accepts it, whatever the broker does."""
        self._gate.made(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on."""
        self._gate.lost(self)
        super().connection_lost(exc)

    def client_sent(self, data: bytes) -> None:
        """Pass bytes on, or hold them."""
        if self._gate.is_closed:
            self._of_client.append(data)
        else:
            super().client_sent(data)

    def broker_sent(self, data: bytes | bytearray | memoryview) -> None:
        """Pass bytes on, or hold them."""
        if self._gate.is_closed:
            self._of_broker.append(bytes(data))
        else:
            super().broker_sent(data)

    def pass_held(self) -> None:
        """Pass on what was held."""
        for data in _taken(self._of_broker):
            super().broker_sent(data)
        for data in _taken(self._of_client):
            if not self.connection.closed:
                super().client_sent(data)


def _taken(held: list[bytes]) -> Iterable[bytes]:
    taken, held[:] = list(held), []
    return taken
