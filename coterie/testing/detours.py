"""Other ways of a response to its client: not at all, cut, or changed.

A fault that changes the way of a response gives the handler an `Exchange` of its own, through which
that response passes.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any

from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response
from coterie.server.broker import Broker
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.route import Handler, Route

LENGTH_BYTES = 4
# Changes a decoded response.
Edit = Callable[[Any], None]


class Detour:
    """A connection as the handler of one request sees it; its response takes another way.

    Everything but the response is passed on to the connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._place: DelayedResponse | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    @property
    def route(self) -> Route:
        """How the request is served."""
        return self._connection.route

    def pass_on(self, below: Handler, broker: Broker, request: Any) -> None:
        """Let the handler handle the request."""
        connection = self._connection
        # The request's place in the queue of responses.
        self._place = DelayedResponse(connection)
        response = below(broker, request, self)
        if response is not None:
            connection.delay(self._place)
            self.respond(self.route.framer(response, self._place.correlation_id))

    def delay(self, _response: DelayedResponse) -> None:
        """Delay the response; see `Exchange`."""
        assert self._place is not None, "a response is delayed while its request is handled"
        self._connection.delay(self._place)

    def delay_and_mute(self, _response: DelayedResponse) -> None:
        """Delay the response and mute the connection; see `Exchange`."""
        assert self._place is not None, "a response is delayed while its request is handled"
        self._connection.delay_and_mute(self._place)

    def response_ready(self, response: DelayedResponse) -> None:
        """Respond; see `Exchange`."""
        assert response.frame is not None, "a ready response has a frame"
        self.respond(bytes(response.frame))

    def respond(self, frame: bytes) -> None:
        """Do with the response what the fault does."""
        raise NotImplementedError

    def _send(self, frame: bytes) -> None:
        assert self._place is not None, "a request has one place in the queue"
        self._place.frame = frame
        self._connection.response_ready(self._place)


class Dropped(Detour):
    """Never sends the response."""

    def respond(self, frame: bytes) -> None:
        """Do nothing: the place in the queue stays taken."""


class Cut(Detour):
    """Sends the first bytes of the response and closes the connection."""

    def __init__(self, connection: Connection, loop: AbstractEventLoop, sent_bytes: int) -> None:
        super().__init__(connection)
        self._loop = loop
        self._sent_bytes = sent_bytes

    def respond(self, frame: bytes) -> None:
        """Send a part and close, at the end of this turn."""
        connection = self._connection
        if self._sent_bytes:
            self._send(frame[: self._sent_bytes])
        self._loop.call_soon(lambda: None if connection.closed else connection.close_quietly())


class Edited(Detour):
    """Sends the response with changes."""

    def __init__(self, connection: Connection, edits: list[Edit]) -> None:
        super().__init__(connection)
        self._edits = edits
        # The connection may be at a later request when this one is answered.
        self._answered = connection.route

    def respond(self, frame: bytes) -> None:
        """Decode the response, change it, and send it."""
        assert self._place is not None, "a request has one place in the queue"
        route = self._answered
        cls = response_class(route.api)
        _, message = decode_response(cls, frame[LENGTH_BYTES:], route.version)
        for edit in self._edits:
            edit(message)
        # Not the framer of the route: that may expect an encoded array.
        self._send(cls.framer(route.version)(message, self._place.correlation_id))
