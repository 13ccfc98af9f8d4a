"""All connections of the server: who may connect, what they may hold, and the one periodic look at
their deadlines.

One sweep per second replaces a timer per connection: it closes the idle, the ones that never finish
a frame, and the ones that don't read their answers. Invariants: a connection is in the table from
admission until it is lost; the buffered bytes of the table are the sum of its connections'
backlogs.
"""

import asyncio
import socket
from enum import Enum
from struct import unpack
from typing import TYPE_CHECKING

from coterie.server import limits

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


class Stage(Enum):
    """What a connection is waiting for, as the sweep sees it."""

    IDLE = "idle"
    BUSY = "busy"
    FRAME = "frame"
    UNREAD = "unread"
    CLOSING = "closing"


def java_address(host: str) -> str:
    """An address as Java prints it, as group descriptions and logged members show it (spec 3)."""
    if ":" not in host:
        return f"/{host}"
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return "/" + ":".join(f"{group:x}" for group in unpack(">8H", packed))


class ConnectionQuotas:
    """The table of connections and its limits."""

    def __init__(self, broker: "Broker") -> None:
        """Empty; limits come from the configuration of `broker`."""
        config = broker.config
        self._broker = broker
        self.max_request_bytes = config.get_int("socket.request.max.bytes")
        self._max_connections = config.get_int("max.connections")
        self._max_per_address = config.get_int("max.connections.per.ip")
        self._idle_ms = config.get_int("connections.max.idle.ms")
        self._connections: dict[Connection, str] = {}
        self._per_address: dict[str, int] = {}
        self.buffered_bytes = 0
        self._close_lines = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, connection: "Connection", address: str) -> str | None:
        """Take a new connection in, or tell why not."""
        if len(self._connections) >= self._max_connections:
            return f"{self._max_connections} connections are open (max.connections)"
        here = self._per_address.get(address, 0)
        if here >= self._max_per_address:
            return f"{here} connections from {address} are open (max.connections.per.ip)"
        self._per_address[address] = here + 1
        self._connections[connection] = address
        if self._timer is None:
            self._arm()
        return None

    def forget(self, connection: "Connection") -> None:
        """The connection is gone."""
        address = self._connections.pop(connection, None)
        if address is None:
            return
        left = self._per_address[address] - 1
        if left:
            self._per_address[address] = left
        else:
            del self._per_address[address]

    def buffer(self, size_bytes: int) -> bool:
        """Account for bytes kept for unfinished requests, or given back; False when all of them are
        too many.
        """
        self.buffered_bytes += size_bytes
        return self.buffered_bytes <= limits.TOTAL_BUFFERED_BYTES

    def log_close(self, peer: str, error: str, reason: str) -> None:
        """One line about a closed connection; in a flood only the first ones of each second."""
        self._close_lines += 1
        if self._close_lines <= limits.CLOSE_LINES_PER_SWEEP:
            self._broker.log.warning("connection closed", peer=peer, error=error, reason=reason)
        if self._timer is None:
            self._arm()

    def close_all(self) -> None:
        """The server stops: write what is ready and close."""
        for connection in list(self._connections):
            if not connection.closed:
                connection.shut()

    def abort_all(self) -> None:
        """The server stops now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._connections):
            connection.abort()

    def _arm(self) -> None:
        self._timer = self._broker.loop.call_later(limits.SWEEP_INTERVAL_MS / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.sweep(self._broker.now_ms())
        if self._connections:
            self._arm()

    def sweep(self, now_ms: int) -> None:
        """Look at every connection once and close those past a deadline."""
        suppressed = self._close_lines - limits.CLOSE_LINES_PER_SWEEP
        if suppressed > 0:
            self._broker.log.warning("connections closed, not shown", count=suppressed)
        self._close_lines = 0
        for connection in list(self._connections):
            stage = connection.look()
            if stage is not connection.stage or (stage is Stage.IDLE and connection.active):
                self._begin(connection, stage, now_ms)
            elif stage is Stage.UNREAD:
                self._check_unread(connection, now_ms)
            elif now_ms >= self._deadline_ms(connection, stage):
                self._expire(connection, stage)
            connection.active = False

    def _begin(self, connection: "Connection", stage: Stage, now_ms: int) -> None:
        """The connection waits for something new: its deadline starts."""
        connection.stage = stage
        connection.deadline_ms = now_ms + self._patience_ms(stage)
        connection.unread_bytes = connection.unwritten_bytes() if stage is Stage.UNREAD else 0

    def _patience_ms(self, stage: Stage) -> int:
        if stage is Stage.FRAME:
            return limits.FRAME_DEADLINE_MS
        if stage is Stage.CLOSING:
            return limits.CLOSING_DEADLINE_MS
        if stage is Stage.UNREAD:
            return limits.UNREAD_DEADLINE_MS
        return self._idle_ms

    def _deadline_ms(self, connection: "Connection", stage: Stage) -> int:
        if stage is Stage.FRAME:
            return (
                connection.deadline_ms + connection.frame_bytes // limits.SLOWEST_LINK_BYTES_PER_MS
            )
        return connection.deadline_ms

    def _check_unread(self, connection: "Connection", now_ms: int) -> None:
        unread = connection.unwritten_bytes()
        if unread < connection.unread_bytes:
            connection.deadline_ms = now_ms + limits.UNREAD_DEADLINE_MS
            connection.unread_bytes = unread
        elif now_ms >= connection.deadline_ms:
            self._expire(connection, Stage.UNREAD)

    def _expire(self, connection: "Connection", stage: Stage) -> None:
        if stage is Stage.CLOSING:
            connection.abort()
        elif stage is Stage.FRAME:
            reason = f"a request has {connection.frame_bytes} bytes after its time to finish"
            connection.close("FrameTimeout", reason)
        elif stage is Stage.UNREAD:
            reason = f"{connection.unread_bytes} bytes of answers are not read"
            connection.close("UnreadAnswers", reason, abort=True)
        elif stage is Stage.IDLE:
            # As Kafka does: idle connections are closed without a word.
            connection.shut()
