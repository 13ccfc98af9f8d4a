"""Answers that come later: a request's place in its connection's line, and the one write per
connection and turn.

A handler that can't answer at once makes a `DelayedResponse` and hands it to
`Connection.delay_and_mute` or `Connection.delay`. `send` is called at most once, and does nothing
when the connection is gone by then. Answers leave in the order of their requests.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from coterie.server.network.answering import Answering
    from coterie.server.network.connection import Connection


class DelayedResponse:
    """The place of one request's answer in its connection's line."""

    __slots__ = ("abandoned", "connection", "correlation_id", "frame", "framer")

    def __init__(self, connection: "Connection") -> None:
        """For the request that `connection` is handling now."""
        self.connection = connection
        self.correlation_id = connection.correlation_id
        self.framer: Callable[[Any, int], bytes] = connection.route.framer
        self.frame: bytes | None = None
        # Called when the connection goes before the answer came, so that a waiting fetch can be
        # forgotten.
        self.abandoned: Callable[[], None] | None = None

    def send(self, message: Any) -> None:
        """Answer the request; it leaves as soon as every earlier request of the connection is
        answered.
        """
        connection = self.connection
        if connection.closed:
            return
        assert self.frame is None, "a request is answered once"
        self.frame = self.framer(message, self.correlation_id)
        connection.answered(self)


class Outbox:
    """Connections that were given answers outside of their own read; each is written to once per
    loop turn.
    """

    __slots__ = ("_connections", "_loop", "gathering")

    def __init__(self, loop: "AbstractEventLoop") -> None:
        """Write at the next turn of `loop`."""
        self._loop = loop
        self._connections: list[Answering] = []
        # Set by whoever answers many and flushes at the end of it: no turn of the loop is needed.
        self.gathering = False

    def add(self, connection: "Answering") -> None:
        """`connection` has something to write; called once until it has been written."""
        if not self._connections and not self.gathering:
            self._loop.call_soon(self.flush)
        self._connections.append(connection)

    def flush(self) -> None:
        """Write everything now."""
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()
