"""Routes that count what clients do and throttle them; only used while there are quotas.

A throttled response leaves at once and says how long the client must wait; its connection is muted
for that time, so that clients which do not wait are slowed down, too (KIP-219)
[quotas/throttling].
"""

from collections.abc import Generator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Route
from coterie.server.quotas.checks import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from coterie.server.quotas.client_quotas import ClientQuotas
from coterie.server.services import Services

# The request header up to the client id, and the correlation id of a response header.
_HEADER_BYTES = 10
_CORRELATION_BYTES = 4
_NO_SESSION = 0
_FULL_EPOCHS = (-1, 0)


def throttled_route(route: Route) -> Route:
    """Return the same route, throttled by the quotas of the broker."""
    throttle = _ThrottledRoute(route)
    return Route(
        route.api,
        route.version,
        throttle.handle,
        throttle.decode,
        route.framer,
        flexible=route.flexible,
        decode_in_steps=None if route.decode_in_steps is None else throttle.decode_in_steps,
    )


class _ThrottledRoute:
    """One API and version while there are quotas."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._body_bytes = 0

    def decode(self, data: bytes, start: int, end: int) -> Any:
        """Decode a request, and note its size for the handler, which is called next."""
        self._body_bytes = end - start
        return self._route.decoder(data, start, end)

    def decode_in_steps(self, data: bytes, start: int, end: int) -> Generator[None, None, Any]:
        """Decode a large request in steps, and note its size after the last one."""
        decode_in_steps = self._route.decode_in_steps
        assert decode_in_steps is not None, "the route of this one decodes in steps"
        request = yield from decode_in_steps(data, start, end)
        self._body_bytes = end - start
        return request

    def handle(self, broker: Services, request: Any, connection: Exchange) -> None:
        """Handle a request. Its response is counted when it is sent."""
        route = self._route
        call = _Call(broker, route, request, connection, self._body_bytes)
        clock_s = broker.environment.slice_clock_s
        began_s = clock_s()
        call.limit_fetch()
        connection.route = Route(
            route.api,
            route.version,
            route.handle,
            route.decoder,
            call.frame,
            flexible=route.flexible,
            in_steps=None if route.in_steps is None else call.frame_in_steps,
        )
        response = route.handle(broker, request, connection)
        call.busy_s = clock_s() - began_s
        if response is not None:
            delayed = DelayedResponse(connection)
            connection.delay(delayed)
            delayed.send(response)
        elif route.api is ApiKey.PRODUCE and request.acks == 0:
            connection.mute_for(call.produced_ms())


class _Call:
    """One request and its response.

    Attributes:
        busy_s: how long the handler took.
    """

    def __init__(
        self, broker: Services, route: Route, request: Any, connection: Exchange, body_bytes: int
    ) -> None:
        self._broker = broker
        self._quotas: ClientQuotas = broker.quotas
        self._route = route
        self._request = request
        self._connection = connection
        self._client = connection.client
        self._bytes = _HEADER_BYTES + len(self._client.client_id.encode()) + body_bytes
        self.busy_s = 0.0

    def limit_fetch(self) -> None:
        """Let a Fetch return no more than the quota allows in all windows together."""
        if self._route.api is not ApiKey.FETCH:
            return
        client = self._client
        throttling = self._quotas.throttling
        most = throttling.most_bytes(CONSUMER_BYTE_RATE, client.principal, client.client_id)
        if most is not None:
            request = self._request
            request.max_bytes = min(request.max_bytes, most)
            request.min_bytes = min(request.min_bytes, request.max_bytes)

    def produced_ms(self) -> int:
        """Count the bytes of a Produce request; return how long the client must wait."""
        return self._record(PRODUCER_BYTE_RATE, self._bytes)

    def frame(self, message: Any, correlation_id: int) -> bytes:
        """Return the frame of the response, and mute the connection if it is throttled."""
        frame = self._route.framer(message, correlation_id)
        throttled = self._throttled(message, frame)
        return frame if throttled is None else self._route.framer(throttled, correlation_id)

    def frame_in_steps(self, message: Any, correlation_id: int) -> Generator[None, None, bytearray]:
        """Do as `frame` does for a large response, in steps."""
        in_steps = self._route.in_steps
        assert in_steps is not None, "the route of this call encodes in steps"
        frame = yield from in_steps(message, correlation_id)
        throttled = self._throttled(message, frame)
        return frame if throttled is None else (yield from in_steps(throttled, correlation_id))

    def _throttled(self, message: Any, frame: bytes | bytearray) -> Any:
        """Mute the connection if a response is throttled; return it with the time, or None."""
        waits_ms = [self._record(REQUEST_PERCENTAGE, self.busy_s * 100)]
        fields = type(message).fields_
        if "throttle_time_ms" in fields:
            waits_ms.append(message.throttle_time_ms)
        fetched = 0
        if self._route.api is ApiKey.PRODUCE:
            waits_ms.append(self.produced_ms())
        elif self._route.api is ApiKey.FETCH:
            fetched = len(frame) - _CORRELATION_BYTES - self._route.flexible
            waits_ms.append(self._record(CONSUMER_BYTE_RATE, fetched))
        wait_ms = max(waits_ms)
        if wait_ms <= 0:
            return None
        self._connection.mute_for(wait_ms)
        if "throttle_time_ms" not in fields:
            return None
        # A copy, because a message may be shared by many responses.
        message = type(message).of(*(getattr(message, name) for name in fields))
        message.throttle_time_ms = wait_ms
        if fetched and message.error_code == ErrorCode.NONE:
            self._empty(message, fetched)
        return message

    def _empty(self, message: Any, fetched: int) -> None:
        """Take the records out of a throttled Fetch response, as Kafka does.

        The client asks again; a full fetch makes its session again, too.
        """
        self._record(CONSUMER_BYTE_RATE, -fetched)
        message.responses = []
        if self._request.session_epoch in _FULL_EPOCHS and message.session_id != _NO_SESSION:
            self._broker.fetch_sessions.close(message.session_id)
            message.session_id = _NO_SESSION

    def _record(self, key: str, amount: float) -> int:
        client = self._client
        return self._quotas.throttling.record(
            key, client.principal, client.client_id, amount, self._broker.environment.now_ms()
        )
