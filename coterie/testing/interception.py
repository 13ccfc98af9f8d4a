"""Records requests and lets them meet faults, in a table over the broker's table of routes.

The broker has no code for this: without a recording and without faults its own table serves, and
requests cost the same. A fault that changes the way of a response gives the handler an `Exchange`
of its own, through which that response passes.
"""

from asyncio import AbstractEventLoop
from copy import copy
from functools import partial
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.route import Handler, Route
from coterie.server.network.routes import Overlay
from coterie.testing.error_answers import error_answer
from coterie.testing.faults import (
    AnswerError,
    AnswerGarbage,
    CloseAfter,
    CloseBefore,
    CutAnswer,
    Delay,
    Fault,
    NeverAnswer,
    Throttle,
)
from coterie.testing.requests import Request, Requests

_LENGTH_BYTES = _ID_BYTES = 4


class Interception:
    """The faults of a broker, and the recording of its requests.

    Attributes:
        requests: the recorded requests.
        faults: the installed faults, in the order in which requests meet them; the first one that
            meets a request decides.
    """

    def __init__(self) -> None:
        """Start without faults."""
        self.requests = Requests()
        self.faults: list[Fault] = []
        # The latest request of each connection, and the way of its response if a fault changes it.
        # A request that was postponed arrives here again.
        self._latest: dict[int, tuple[Any, _Detour | None]] = {}

    def install(self, fault: Fault) -> None:
        """Let requests meet a fault, after those that are installed already."""
        self.faults = [*(each for each in self.faults if not each.is_removed), fault]

    def lay_over(self, broker: Broker) -> None:
        """Record all requests of a broker from now on, and let them meet the faults."""
        self._latest.clear()
        wrappers = {api: partial(self._wrap, api) for api in SERVED_VERSIONS}
        broker.use_routes(Overlay(broker.routes, wrappers))

    def _wrap(self, api: ApiKey, below: Handler) -> Handler:
        def handle(broker: Broker, request: Any, connection: Connection) -> Any:
            return self._handle(api, below, broker, request, connection)

        return handle

    def _handle(
        self, api: ApiKey, below: Handler, broker: Broker, request: Any, connection: Connection
    ) -> Any:
        client, version = connection.client, connection.version
        connection_id = client.connection_id
        if connection_id not in self._latest:
            connection.when_closed(self, partial(self._forget, connection_id))
        latest, detour = self._latest.get(connection_id, (None, None))
        if latest is request:
            if detour is not None:
                return detour.pass_on(below, broker, request)
            return below(broker, request, connection)
        self._latest[connection_id] = request, None
        self.requests.add(
            Request(
                connection.now_ms,
                api.kafka_name,
                version,
                client.client_id,
                connection_id,
                request,
            )
        )
        for fault in self.faults:
            if fault.meets(api, version, client, request):
                return self._meet(fault, api, below, broker, request, connection)
        return below(broker, request, connection)

    def _forget(self, connection_id: int) -> None:
        """Forget a connection that was closed."""
        self._latest.pop(connection_id, None)

    def _meet(
        self,
        fault: Fault,
        api: ApiKey,
        below: Handler,
        broker: Broker,
        request: Any,
        connection: Connection,
    ) -> Any:
        """Let a request meet a fault; return a response or None, as a handler does."""
        match fault.action:
            case AnswerError() as action:
                return _answer_error(action.code, api, broker, request, connection)
            case Delay(seconds):
                broker.loop.call_later(seconds, connection.postpone(request))
                return None
            case AnswerGarbage(body):
                head = (len(body) + _ID_BYTES).to_bytes(_LENGTH_BYTES)
                frame = head + connection.correlation_id.to_bytes(_ID_BYTES) + body
                return _send_frame(connection, frame)
            case CloseBefore():
                connection.close_quietly(abort=True)
                return None
            case NeverAnswer(handle=False):
                connection.delay(DelayedResponse(connection))
                return None
            case NeverAnswer():
                detour: _Detour = _Dropped(connection)
            case CloseAfter():
                detour = _Cut(connection, broker.loop, 0)
            case CutAnswer(sent_bytes):
                detour = _Cut(connection, broker.loop, sent_bytes)
            case Throttle(milliseconds):
                detour = _Throttled(connection, milliseconds)
        self._latest[connection.client.connection_id] = request, detour
        return detour.pass_on(below, broker, request)


def _answer_error(
    code: ErrorCode, api: ApiKey, broker: Broker, request: Any, connection: Connection
) -> None:
    if api is ApiKey.PRODUCE and request.acks == 0:
        # The client waits for no response; all it can notice is that the connection ends.
        connection.close_quietly(abort=True)
        return
    endpoints = broker.image.endpoints(connection.client.listener)
    version = connection.version
    message = error_answer(api, request, code, version, endpoints)
    # Not the framer of the route: that may expect an encoded array.
    framer = response_class(api).framer(version)
    _send_frame(connection, framer(message, connection.correlation_id))


def _send_frame(connection: Connection, frame: bytes) -> None:
    """Answer with a frame, after earlier responses of the connection."""
    response = DelayedResponse(connection)
    response.frame = frame
    connection.delay(response)


class _Detour:
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
        self.respond(response.frame)

    def respond(self, frame: bytes) -> None:
        """Do with the response what the fault does."""
        raise NotImplementedError

    def _send(self, frame: bytes) -> None:
        assert self._place is not None, "a request has one place in the queue"
        self._place.frame = frame
        self._connection.response_ready(self._place)


class _Dropped(_Detour):
    """Never sends the response."""

    def respond(self, frame: bytes) -> None:
        """Do nothing: the place in the queue stays taken."""


class _Cut(_Detour):
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


class _Throttled(_Detour):
    """Puts a time into the response."""

    def __init__(self, connection: Connection, milliseconds: int) -> None:
        super().__init__(connection)
        self._milliseconds = milliseconds

    @property
    def route(self) -> Route:
        """The route of the request, whose framer adds the time."""
        route = self._connection.route
        framer, milliseconds = route.framer, self._milliseconds

        def frame(response: Any, correlation_id: int) -> bytes:
            # The coordinator shares some responses between requests.
            throttled = copy(response)
            throttled.throttle_time_ms = milliseconds
            return framer(throttled, correlation_id)

        return Route(
            route.api, route.version, route.handle, route.decoder, frame, flexible=route.flexible
        )

    def respond(self, frame: bytes) -> None:
        """Send the response."""
        self._send(frame)
