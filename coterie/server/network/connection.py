"""One client connection: from received bytes to handled requests. The hot path of the server.

All requests of one read are handled in one call: no task, future or await, and one write for their
responses. A request is decoded in place in the read buffer; most are answered at once.

Invariants:
* Responses leave in the order of the requests [connections/muting].
* While a response is delayed by `delay_and_mute` no later request of the connection is handled, as
  in Kafka. A response that only waits for the disk (`delay`) lets later requests be handled.
* A peer that does not read its responses, or does not finish a request, is disconnected in the end
  [connections/input-limits].
* Bytes that are not a request close the connection with one log line. No exception leaves this
  module, because the event loop could only log it.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator
from functools import partial
from struct import Struct
from typing import Any, cast

from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.primitives import skip_tags
from coterie.server.loggers import SOCKET_SERVER
from coterie.server.network import limits
from coterie.server.network.channel import Channel, ConnectionServices
from coterie.server.network.connection_quotas import ConnectionState, java_address
from coterie.server.network.delayed_response import DelayedResponse, PostponedRequest
from coterie.server.network.receive_buffer import (
    LENGTH_BYTES,
    ReceiveBuffer,
    bad_length,
    frame_bytes,
    long_header,
)
from coterie.server.network.route import Route
from coterie.server.network.routes import Routes
from coterie.server.network.sliced_response import run_for_a_slice

# Frame length, API key and version as one number, correlation id, length of the client id
# [framing/request-header].
_read_header = Struct(">iIih").unpack_from
_HEADER_BYTES = 14
# The budget of the turn is looked at after the first request and each eighth one that follows: a
# look takes a hundredth of a heartbeat, and eight requests that create a group take 1 ms.
_EIGHTH = 7
_join = b"".join


class Connection(Channel):
    """The server's end of one client connection.

    Attributes:
        client: who sends the requests.
        routes: the APIs that the client may use; replaced at a login.
        correlation_id, route: of the current request, for its handler.
        now_ms: the time of the read that brought the current request.
        active: bytes arrived since the last sweep.
        state, deadline_ms, unsent_at_sweep: kept by `ConnectionQuotas.sweep`: what the connection
            waited for at the last sweep, until when, and its unsent bytes at that time.
    """

    __slots__ = (
        "_client_id_bytes",
        "_eof",
        "_is_ending",
        "_largest",
        "_reading_paused",
        "_received",
        "_unread_bytes",
        "_yielded",
        "active",
        "deadline_ms",
        "routes",
        "state",
        "unsent_at_sweep",
    )

    def __init__(self, broker: ConnectionServices, listener: str = "PLAINTEXT") -> None:
        super().__init__(broker)
        self.routes: Routes = broker.routes
        self._largest = broker.connection_quotas.max_request_bytes
        self._client_id_bytes = b""
        self._received = ReceiveBuffer()
        self._yielded = False
        self._reading_paused = False
        self._unread_bytes = 0
        # Nothing more is read, because the server stops.
        self._is_ending = False
        # The client sends no more, and the connection ends when all its requests are handled.
        self._eof = False
        self.client = ClientContext(broker.connection_quotas.next_id(), listener)
        self.correlation_id = 0
        self.now_ms = 0
        self.active = True
        self.state = ConnectionState.IDLE
        self.deadline_ms = 0
        self.unsent_at_sweep = 0

    # --- called by the transport ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse it if a limit is reached."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        host, port = (address[0], address[1]) if address else ("unknown", 0)
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.client = self.client._replace(client_host=java_address(host), client_port=port)
        refusal = self._broker.connection_quotas.admit(self, host, self.client.listener)
        if refusal is not None:
            self.close("ConnectionLimit", refusal, abort=True)
            return
        self._transport.set_write_buffer_limits(limits.UNREAD_HIGH_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Drop delayed responses, which can no longer be sent [connections/disconnect]."""
        self.closed = True
        self._muted = True
        self._drop_buffered()
        self._count_unread(0)
        self._out.clear()
        for response in self._delayed:
            if response.on_disconnect is not None:
                response.on_disconnect()
        self._delayed.clear()
        self._muted_by = None
        self._broker.connection_quotas.remove(self)
        self._end()

    def data_received(self, read: bytes | bytearray) -> None:  # noqa: C901 - one piece: each call made here would cost a tenth of a heartbeat
        """Handle all complete requests of a read, write the responses, buffer the rest."""
        data = read if isinstance(read, bytes) else bytes(read)  # Python 3.11 on Windows: a buffer
        self.active = True
        if self._muted:
            self._buffer(data)
            return
        # Local names: in this loop a lookup of an attribute is a measurable part of a heartbeat.
        broker, out, delayed = self._broker, self._out, self._delayed
        largest, client_id_bytes = self._largest, self._client_id_bytes
        position, available = 0, len(data)
        self.now_ms = broker.now_ms()  # once: requests of one read have the same time
        self._handling = True
        try:
            for handled in range(limits.REQUESTS_PER_TURN):
                request = route = None
                if (body := position + _HEADER_BYTES) > available:
                    break
                if handled & _EIGHTH == 1 and broker.turns.is_spent:
                    self._yield_turn()
                    break
                length, route_key, correlation_id, id_length = _read_header(data, position)
                if not limits.SMALLEST_REQUEST_BYTES <= length <= largest:
                    raise bad_length(length, largest)  # noqa: TRY301 - handled as decoders' errors
                end = position + LENGTH_BYTES + length
                if end > available:
                    break
                route = self.routes.get(route_key)  # Read anew, because a login replaces it.
                if route is None:
                    route = self.routes.load(route_key)
                start = body + id_length
                # A client sends the same id every time, so it is compared instead of decoded.
                if id_length < 0 or data[body:start] != client_id_bytes:
                    start = self._take_client_id(data, body, id_length, end)
                    client_id_bytes = self._client_id_bytes
                if route.flexible:
                    tags = data[start]
                    start = skip_tags(data, start + 1, end, tags) if tags else start + 1
                if start > end:
                    raise long_header(end - position)  # noqa: TRY301 - as above
                self.correlation_id, self.route = correlation_id, route
                if length > route.large_bytes:
                    position = end
                    if self._handle_large(data, start, end):
                        break
                    continue
                request = route.decoder(data, start, end)
                response = route.handle(broker, request, self)
                position = end
                if response is None or delayed:
                    if self._queue_response(response):
                        break
                    continue
                frame = route.framer(response, correlation_id)
                out.append(frame)
                if len(frame) > limits.SMALL_RESPONSE_BYTES and self._is_stopped_by_flush():
                    break
            else:
                self._yield_turn()
        except Exception as error:  # noqa: BLE001 - no exception may reach the event loop
            self._close_on(error, route, decoded=request is not None)
        self._handling = False
        if out:  # as in `flush`, without the call
            self._transport.write(out[0] if len(out) == 1 else _join(out))
            out.clear()
        if position < available:
            self._buffer_rest(data, position)

    def eof_received(self) -> bool:
        """Return whether the connection is kept although the client sends no more.

        A client that sends Produce with acks=0 may leave before its requests are handled.
        """
        self._eof = isinstance(self._muted_by, PostponedRequest) and not self.closed
        return self._eof

    def pause_writing(self) -> None:
        """Mute the connection: the peer has too many responses left to read."""
        self._writing_paused = True
        self._muted = True
        self._count_unread(self.unsent_bytes())

    def resume_writing(self) -> None:
        """Unmute the connection: the peer has read its responses."""
        self._writing_paused = False
        self._count_unread(0)
        self._resume_soon()

    def _count_unread(self, size_bytes: int) -> None:
        """Count what the peer left to read when it was muted; the rest of it is not much."""
        self._broker.connection_quotas.unread_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes

    def _is_stopped_by_flush(self) -> bool:
        """Write a large response; return whether no request may be handled behind it."""
        # The transport pauses us here if the peer does not read, or closes if it was reset.
        self.flush()
        return self._muted or self._transport.is_closing()

    # --- requests ---------------------------------------------------------------------------------

    def _queue_response(self, response: object) -> bool:
        """Queue a response behind delayed ones; None means that the handler has delayed its own.

        Returns:
            Whether the connection is muted now, so that no later request may be handled.
        """
        if response is not None:
            queued = DelayedResponse(self)
            self._delayed.append(queued)
            queued.send(response)
        if len(self._delayed) >= limits.DELAYED_RESPONSES:
            self._muted = True
        return self._muted

    def postpone(self, request: object) -> Callable[[], None]:
        """Mute this connection and return a function that handles the current request again.

        A handler that cannot go on before something has happened returns None after this.
        """
        postponed = PostponedRequest(self, request)
        self.delay_and_mute(postponed)
        return postponed.handle

    def handle_postponed(self, postponed: PostponedRequest, request: object) -> None:
        """Handle a request that was postponed, as if it had just arrived."""
        if self.closed:
            return
        assert self._muted_by is postponed, "a postponed request mutes its connection"
        assert self._delayed.pop() is postponed, "no later request was handled"
        self._muted_by = None
        route = self.route
        self.now_ms = self._broker.now_ms()
        self._handling = True
        try:
            self._queue_response(route.handle(self._broker, request, self))
        except Exception as error:  # noqa: BLE001 - no exception may reach the event loop
            self._close_on(error, route, decoded=True)
        self._handling = False
        if self.closed:
            return
        # Bytes that arrived behind the request are handled before those that arrive now.
        self._muted = True
        self.flush()
        self._resume_soon()

    def _handle_large(self, data: bytes, start: int, end: int) -> bool:
        """Handle a request that may take long to decode, and its response to encode.

        Returns:
            Whether the connection is muted now, so that no later request may be handled.
        """
        route, request = self.route, None
        try:
            request = self._decode_large(data, start, end)
            if request is not None:
                self._queue_response(route.handle(self._broker, request, self))
        except Exception as error:  # noqa: BLE001 - no exception may reach the event loop
            self._close_on(error, route, decoded=request is not None)
        # The transport pauses us here if the peer does not read.
        self.flush()
        return self._muted

    def _decode_large(self, data: bytes, start: int, end: int) -> Any:
        """Return a large request, or None if it is decoded and handled in later turns."""
        route = self.route
        if route.decode_in_steps is None:
            return route.decoder(data, start, end)
        steps = route.decode_in_steps(data, start, end)
        request = run_for_a_slice(steps, self._broker.environment.slice_clock_s)
        if request is not None:
            return request[0]
        postponed = PostponedRequest(self, None)
        self.delay_and_mute(postponed)
        self._broker.slices.submit(
            self._decode_rest(postponed, steps), partial(self._decoded, postponed)
        )
        return None

    def _decode_rest(
        self, postponed: PostponedRequest, steps: Generator[None, None, object]
    ) -> Iterator[None]:
        while not self.closed:
            try:
                next(steps)
            except StopIteration as decoded:
                postponed.request = decoded.value
                return
            yield

    def _decoded(self, postponed: PostponedRequest, failure: Exception | None) -> None:
        if failure is None:
            postponed.handle()
        elif not self.closed:
            self._close_on(failure, postponed.route, decoded=False)

    def fail_request(self, error: Exception) -> None:
        """Close the connection, because a request that mutes it failed by our own mistake."""
        if not self.closed:
            self._close_on(error, self.route, decoded=True)

    def _take_client_id(self, data: bytes, start: int, length: int, end: int) -> int:
        """Decode a client id that differs from the last one; return the position behind it."""
        if length == -1:
            self._client_id_bytes = b""
            self.client = self.client._replace(client_id="")
            return start
        stop = start + length
        if not start <= stop <= end:
            raise MalformedFrame(f"client_id claims {length} bytes where {end - start} are left")
        self._client_id_bytes = data[start:stop]
        self.client = self.client._replace(client_id=self._client_id_bytes.decode())
        return stop

    def _close_on(self, error: Exception, route: Route | None, *, decoded: bool) -> None:
        """Close after a request failed. A malformed one is logged in one line, our own mistake
        with its traceback.
        """
        request = "request header" if route is None else f"{route.api.kafka_name} v{route.version}"
        if not decoded and isinstance(error, DECODE_ERRORS):
            self.close("MalformedFrame", f"{request}: {error}")
        else:
            log = self._broker.environment.loggers.named(SOCKET_SERVER)
            log.error("request failed", peer=self.peer, request=request, exc_info=error)
            self.close_quietly()

    # --- buffering and muting ---------------------------------------------------------------------

    def _buffer_rest(self, data: bytes, position: int) -> None:
        """Buffer the bytes behind the last handled request, if it can still be answered."""
        if self.closed or self._transport.is_closing():
            return
        try:
            self._received.needed_bytes = frame_bytes(data, position, self._largest)
        except MalformedFrame as error:
            self._close_on(error, None, decoded=False)
            return
        if position:
            # The rest belongs to another request, whose deadline starts at the next sweep.
            self.state = ConnectionState.BUSY
        self._muted = True
        self._buffer(data[position:])

    def _buffer(self, data: bytes) -> None:
        """Keep bytes that cannot be handled yet; handle the buffer if they complete a request."""
        if self.closed:
            return
        received = self._received
        received.add(data)
        if not self._broker.connection_quotas.reserve_buffer(len(data)):
            self.close("BufferLimit", "unfinished requests of all connections exceed their limit")
        elif not self._is_blocked():
            if received.complete:
                self._handle_buffered()
        elif received.size_bytes > limits.RECEIVE_BUFFER_BYTES and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _is_blocked(self) -> bool:
        return (
            self._muted_by is not None
            or self._writing_paused
            or self._yielded
            or len(self._delayed) >= limits.DELAYED_RESPONSES
        )

    def _handle_buffered(self) -> None:
        self._broker.connection_quotas.reserve_buffer(-self._received.size_bytes)
        data = self._received.take()
        self._muted = False
        self.data_received(data)
        if not self._received:
            self.state = ConnectionState.BUSY

    def _drop_buffered(self) -> None:
        self._broker.connection_quotas.reserve_buffer(-self._received.size_bytes)
        self._received = ReceiveBuffer()

    def _yield_turn(self) -> None:
        """Let other connections be served first [connections/turns]."""
        self._yielded = True
        self._muted = True
        self._broker.turns.wait(self)

    def next_turn(self) -> None:
        """Handle some of the requests that have waited for a turn of the event loop."""
        self._yielded = False
        self._resume()

    def _resume_soon(self) -> None:
        # In a turn of its own, so that sending a response never handles requests of another
        # connection in the middle of an operation.
        if not self._muted or self.closed:
            return
        if self._received or self._reading_paused or self._eof:
            self._broker.loop.call_soon(self._resume)
        elif not self._is_blocked():
            self._muted = False

    def _resume(self) -> None:
        """Handle buffered requests and read again, unless the connection is still blocked."""
        if self.closed or self._is_blocked():
            return
        if self._received.complete:
            self._handle_buffered()
        elif not self._received:
            self._muted = False
        if self._reading_paused and not self._is_blocked() and not self.closed:
            self._reading_paused = False
            if not self._is_ending:
                self._transport.resume_reading()
        if self._eof and not self._is_blocked() and not self.closed:
            self.close_quietly()

    def stop_reading(self) -> None:
        """Read no more; what was received is handled."""
        if self._has_socket() and not self.closed:
            self._is_ending = True
            if not self._reading_paused:
                self._transport.pause_reading()

    # --- read by the sweep of ConnectionQuotas ----------------------------------------------------

    @property
    def current_state(self) -> ConnectionState:
        """What this connection waits for now."""
        if self.closed:
            return ConnectionState.CLOSING
        if self._writing_paused:
            return ConnectionState.UNREAD
        if self._delayed or self._muted_by is not None:
            return ConnectionState.BUSY
        return ConnectionState.RECEIVING if self._received else ConnectionState.IDLE

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an incomplete request have arrived."""
        return self._received.size_bytes
