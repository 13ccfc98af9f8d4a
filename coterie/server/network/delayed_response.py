"""Responses that are sent after their request was handled, and what they need of a connection.

Handlers and delayed responses know a connection only as an `Exchange`, so nothing but the broker
imports `Connection`.

A handler that cannot answer at once creates a `DelayedResponse` and passes it to
`Connection.delay` or `Connection.delay_and_mute`. The response has its place in the connection's
queue from then on, because responses leave in the order of the requests
[connections/muting].
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

from coterie.coordinator.kernel.request import ClientContext
from coterie.server.network.route import Route


class Exchange(asyncio.Protocol):
    """A connection while it handles a request.

    A handler returns its response, or makes a `DelayedResponse` and passes it to `delay` or
    `delay_and_mute`, or calls `postpone`.

    Attributes:
        client: who sent the request.
        now_ms: the time of the read that brought the request.
        correlation_id, route: of the request.
        closed: nothing is read or written any more.
    """

    __slots__ = ("client", "closed", "correlation_id", "now_ms", "route")

    client: ClientContext
    now_ms: int
    correlation_id: int
    closed: bool
    route: Route

    @property
    def version(self) -> int:
        """The API version of the request."""
        return self.route.version

    @abstractmethod
    def delay(self, response: "DelayedResponse") -> None:
        """Delay the response to the request; responses to later ones queue behind it."""

    @abstractmethod
    def delay_and_mute(self, response: "DelayedResponse") -> None:
        """Delay the response to the request, and handle no later one until it is sent."""

    @abstractmethod
    def mute_for(self, duration_ms: int) -> None:
        """Handle no later request for this time."""

    @abstractmethod
    def response_ready(self, response: "DelayedResponse") -> None:
        """Write the responses at the head of the queue that are ready; `response` became ready."""

    @abstractmethod
    def flush(self) -> None:
        """Write the collected responses with one call."""

    @abstractmethod
    def encode_in_slices(self, response: "DelayedResponse", message: Any) -> None:
        """Encode a large response in later turns, and then send its frame."""

    @abstractmethod
    def handle_postponed(self, postponed: "PostponedRequest", request: object) -> None:
        """Handle a request that was postponed, as if it had just arrived."""

    @abstractmethod
    def postpone(self, request: object) -> Callable[[], None]:
        """Mute the connection, and return a function that handles the request again."""

    @abstractmethod
    def fail_request(self, error: Exception) -> None:
        """Close the connection, because a request that mutes it failed by our own mistake."""

    @abstractmethod
    def when_closed(self, subject: Hashable, call: Callable[[], None] | None) -> None:
        """Call a function once when the connection is lost, or at once if it is.

        Args:
            subject: what the call is for; a later call for the same subject replaces it.
            call: the function; None to call nothing any more.
        """

    @abstractmethod
    def close(self, error: str, reason: str, *, abort: bool = False) -> None:
        """Close the connection and log one line."""


class DelayedResponse:
    """The place of one response in the queue of its connection.

    Attributes:
        connection: the connection of the request.
        route: of the request.
        frame: the encoded response; None until `send`, and until a large one is encoded.
        on_disconnect: called if the connection is lost before the response was sent.
    """

    __slots__ = ("connection", "correlation_id", "frame", "on_disconnect", "route")

    def __init__(self, connection: Exchange) -> None:
        """Delay the response to the request that `connection` is handling now."""
        self.connection = connection
        self.correlation_id = connection.correlation_id
        self.route = connection.route
        self.frame: bytes | bytearray | None = None
        self.on_disconnect: Callable[[], None] | None = None

    def send(self, message: Any) -> None:
        """Send the response as soon as all earlier requests of the connection are answered.

        It is called at most once, and does nothing after the connection was closed.
        """
        connection = self.connection
        if connection.closed:
            return
        assert self.frame is None, "a request is answered once"
        route = self.route
        if route.is_large(message):
            connection.encode_in_slices(self, message)
            return
        self.frame = route.framer(message, self.correlation_id)
        connection.response_ready(self)

    def send_frame(self, frame: bytes | bytearray) -> None:
        """Send a response that is encoded already, as `send` does."""
        if not self.connection.closed:
            assert self.frame is None, "a request is answered once"
            self.frame = frame
            self.connection.response_ready(self)


class CompletedResponse(DelayedResponse):
    """A delayed response to which the server adds what the coordinator does not know."""

    __slots__ = ("_complete",)

    def __init__(self, connection: Exchange, complete: Callable[[Any], Any]) -> None:
        super().__init__(connection)
        self._complete = complete

    def send(self, message: Any) -> None:
        """Complete the coordinator's response and send it."""
        super().send(self._complete(message))


class PostponedRequest(DelayedResponse):
    """The place of a request that is handled later; until then it mutes its connection.

    Attributes:
        request: the request; None while it is being decoded.
    """

    __slots__ = ("request",)

    def __init__(self, connection: Exchange, request: object) -> None:
        super().__init__(connection)
        self.request = request

    def handle(self) -> None:
        """Handle the request now, unless its connection was closed."""
        self.connection.handle_postponed(self, self.request)


class Muting(DelayedResponse):
    """Mutes a connection for a time; it is never sent."""

    __slots__ = ()

    def __init__(self, connection: Exchange) -> None:  # there may have been no request
        self.connection = connection
        self.correlation_id = 0
        self.frame = None
        self.on_disconnect = None


class PendingWrites:
    """Connections that have responses to write which no read of their own will write.

    Each of them is written to once at the end of the turn of the event loop, so that many responses
    cost one system call a connection.

    Attributes:
        collecting: set by a caller that sends many responses and calls `flush` at the end; the
            event loop is then not asked for a turn.
    """

    __slots__ = ("_connections", "_loop", "collecting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: list[Exchange] = []
        self.collecting = False

    def add(self, connection: Exchange) -> None:
        """Write to `connection` at the end of this turn; called once until it was written to."""
        if not self._connections and not self.collecting:
            self._loop.call_soon(self.flush)
        self._connections.append(connection)

    def flush(self) -> None:
        """Write to all of them now."""
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()
