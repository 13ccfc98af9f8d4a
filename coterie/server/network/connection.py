"""One client's socket: bytes in, frames, handlers, answers out. The hot path of the server.

What one read brings is handled in one go: many frames, no task, future or await, and one write for
all the answers. A request is decoded where it stands in the read buffer and handled at once; most
are answered at once.

Invariants:
* Answers leave in the order of the requests. Those that must wait stand in `_delayed`, and later
  answers queue behind them.
* A *parked* request (JoinGroup, SyncGroup, a long poll) holds its connection: no further frame is
  handled until it is answered, as in Kafka. A *held* one (its answer waits for the disk) lets
  following frames be handled.
* A peer that does not read its answers is not served further, and closed in the end; so is one that
  does not finish a frame.
* Bytes that are no request close the connection with one log line. No exception leaves this file.
"""

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, cast

from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.primitives import skip_tags
from coterie.server import limits
from coterie.server.network.answering import Answering
from coterie.server.network.backlog import LENGTH_BYTES, Backlog, bad_length, frame_bytes
from coterie.server.network.connection_quotas import Stage, java_address
from coterie.server.network.responses import DelayedResponse
from coterie.server.network.routes import Route, class_stem

if TYPE_CHECKING:
    from coterie.server.broker import Broker

# Frame length, api key and version as one number, correlation id, length of the client id (spec 1).
_read_header = Struct(">iIih").unpack_from
_HEADER_BYTES = 14
_TURN = range(limits.REQUESTS_PER_TURN)
_join = b"".join


class Connection(Answering):
    """The server's end of one client connection.

    Attributes:
        client_id, correlation_id, route: of the request at hand, for its handler.
        client_host: the peer's address as Java prints it.
        now_ms: the time of the read that brought the request at hand.
        active, stage, deadline_ms, unread_bytes: notes of the sweep (listener.py).
    """

    __slots__ = (
        "_backlog",
        "_client_id_bytes",
        "_largest",
        "_reading_paused",
        "_yielded",
        "active",
        "client_host",
        "client_id",
        "correlation_id",
        "deadline_ms",
        "now_ms",
        "route",
        "stage",
        "unread_bytes",
    )

    route: Route

    def __init__(self, broker: "Broker") -> None:
        """Serve requests for `broker`."""
        super().__init__(broker)
        self._largest = broker.connection_quotas.max_request_bytes
        self._client_id_bytes = b""
        self._backlog = Backlog()
        self._yielded = False
        self._reading_paused = False
        self.client_id = ""
        self.client_host = ""
        self.correlation_id = 0
        self.now_ms = 0
        self.active = True
        self.stage = Stage.IDLE
        self.deadline_ms = 0
        self.unread_bytes = 0

    @property
    def version(self) -> int:
        """The API version of the request at hand."""
        return self.route.version

    # --- the transport's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected; over a limit it is refused here."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        host, port = (address[0], address[1]) if address else ("unknown", 0)
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.client_host = java_address(host)
        refusal = self._broker.connection_quotas.admit(self, host)
        if refusal is not None:
            self.close("ConnectionLimit", refusal, abort=True)
            return
        self._transport.set_write_buffer_limits(limits.UNREAD_HIGH_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why makes no difference
        """The connection is gone; answers still under way have nobody to go to."""
        self.closed = True
        self._muted = True
        self._drop_backlog()
        self._out.clear()
        for reply in self._delayed:
            if reply.abandoned is not None:
                reply.abandoned()
        self._delayed.clear()
        self._muted_by = None
        self._broker.connection_quotas.forget(self)

    def data_received(self, data: bytes) -> None:  # noqa: C901 - in one piece: a call costs a tenth of a heartbeat
        """Handle the whole frames of a read, write their answers, keep what is left over."""
        self.active = True
        if self._muted:
            self._add_to_backlog(data)
            return
        broker = self._broker
        routes = broker.routes
        out = self._out
        line = self._delayed
        largest = self._largest
        client_id_bytes = self._client_id_bytes
        position, available = 0, len(data)
        request = route = None
        self.now_ms = broker.now_ms()
        self._handling = True
        try:
            for _ in _TURN:
                body = position + _HEADER_BYTES
                if body > available:
                    break
                request = route = None
                length, route_key, correlation_id, id_length = _read_header(data, position)
                if not limits.SMALLEST_REQUEST_BYTES <= length <= largest:
                    raise bad_length(length, largest)  # noqa: TRY301 - handled like what decoders raise
                end = position + LENGTH_BYTES + length
                if end > available:
                    break
                route = routes.get(route_key)
                if route is None:
                    route = routes.load(route_key)
                start = body + id_length
                if id_length < 0 or data[body:start] != client_id_bytes:
                    start = self._take_client_id(data, body, id_length, end)
                    client_id_bytes = self._client_id_bytes
                if route.flexible:
                    tags = data[start]
                    start = skip_tags(data, start + 1, end, tags) if tags else start + 1
                self.correlation_id = correlation_id
                self.route = route
                request = route.decoder(data, start, end)
                response = route.handle(broker, request, self)
                position = end
                if response is None or line:
                    if self._answer_later(response):
                        break
                    continue
                frame = route.framer(response, correlation_id)
                out.append(frame)
                if len(frame) > limits.SMALL_ANSWER_BYTES:
                    self.flush()
                    if self._muted:
                        break
            else:
                self._yield_turn()
        except Exception as error:  # noqa: BLE001 - the end of every road: nothing reaches the event loop
            self._close_on(error, route, decoded=request is not None)
        self._handling = False
        if out:
            self._transport.write(out[0] if len(out) == 1 else _join(out))
            out.clear()
        if position < available:
            self._keep_rest(data, position)

    def pause_writing(self) -> None:
        """The peer has too much left to read: no further request is handled."""
        self._writing_paused = True
        self._muted = True

    def resume_writing(self) -> None:
        """The peer caught up."""
        self._writing_paused = False
        self._go_on_soon()

    # --- requests ---------------------------------------------------------------------------------

    def _answer_later(self, response: object) -> bool:
        """The request has no answer yet, or its answer stands behind one that is not there yet.

        Returns whether no further frame may be handled.
        """
        if response is not None:
            reply = DelayedResponse(self)
            self._delayed.append(reply)
            reply.send(response)
        if len(self._delayed) >= limits.DELAYED_RESPONSES:
            self._muted = True
        return self._muted

    def _take_client_id(self, data: bytes, start: int, length: int, end: int) -> int:
        """The client id differs from the last one of this connection; the position after it."""
        if length == -1:
            self._client_id_bytes, self.client_id = b"", ""
            return start
        stop = start + length
        if not start <= stop <= end:
            raise MalformedFrame(f"client_id claims {length} bytes where {end - start} are left")
        self._client_id_bytes = data[start:stop]
        self.client_id = self._client_id_bytes.decode()
        return stop

    # --- what waits -------------------------------------------------------------------------------

    def _keep_rest(self, data: bytes, position: int) -> None:
        """Keep the bytes behind the last handled frame."""
        if self.closed:
            return
        try:
            self._backlog.needed_bytes = frame_bytes(data, position, self._largest)
        except MalformedFrame as error:
            self._close_on(error, None, decoded=False)
            return
        if position:
            # What is left over is another frame, with a deadline of its own.
            self.stage = Stage.BUSY
        self._muted = True
        self._add_to_backlog(data[position:])

    def _add_to_backlog(self, data: bytes) -> None:
        """Bytes that can't be handled yet: a frame in parts, or requests behind a parked one."""
        if self.closed:
            return
        backlog = self._backlog
        backlog.add(data)
        if not self._broker.connection_quotas.buffer(len(data)):
            self.close("BufferLimit", "unfinished requests of all connections exceed their bound")
        elif not self._held_back():
            if backlog.complete:
                self._handle_backlog()
        elif backlog.size_bytes > limits.BACKLOG_BYTES and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _held_back(self) -> bool:
        """Whether something other than a missing byte keeps the next frame from being handled."""
        return (
            self._muted_by is not None
            or self._writing_paused
            or self._yielded
            or len(self._delayed) >= limits.DELAYED_RESPONSES
        )

    def _handle_backlog(self) -> None:
        self._broker.connection_quotas.buffer(-self._backlog.size_bytes)
        data = self._backlog.take()
        self._muted = False
        self.data_received(data)
        if not self._backlog:
            self.stage = Stage.BUSY

    def _drop_backlog(self) -> None:
        self._broker.connection_quotas.buffer(-self._backlog.size_bytes)
        self._backlog = Backlog()

    def _yield_turn(self) -> None:
        """Enough for one turn: let other connections come first."""
        self._yielded = True
        self._muted = True
        self._broker.loop.call_soon(self._end_yield)

    def _end_yield(self) -> None:
        self._yielded = False
        self._go_on()

    def _go_on_soon(self) -> None:
        """Go on in a turn of its own: no answer handles another connection's requests inside it."""
        if not self._muted or self.closed:
            return
        if self._backlog or self._reading_paused:
            self._broker.loop.call_soon(self._go_on)
        elif not self._held_back():
            self._muted = False

    def _go_on(self) -> None:
        """Something that held this connection back is over."""
        if self.closed or self._held_back():
            return
        if self._backlog.complete:
            self._handle_backlog()
        elif not self._backlog:
            self._muted = False
        if self._reading_paused and not self._held_back() and not self.closed:
            self._reading_paused = False
            self._transport.resume_reading()

    def _close_on(self, error: Exception, route: Route | None, *, decoded: bool) -> None:
        """A frame could not be handled: the peer's fault costs one line, ours a traceback too."""
        request = "request header" if route is None else f"{class_stem(route.api)} v{route.version}"
        if not decoded and isinstance(error, DECODE_ERRORS):
            self.close("MalformedFrame", f"{request}: {error}")
        else:
            log = self._broker.log
            log.error("request failed", peer=self.peer, request=request, exc_info=error)
            self.shut()

    # --- what the sweep asks ----------------------------------------------------------------------

    def look(self) -> Stage:
        """What this connection is waiting for."""
        if self.closed:
            return Stage.CLOSING
        if self._writing_paused:
            return Stage.UNREAD
        if self._delayed:
            return Stage.BUSY
        return Stage.FRAME if self._backlog else Stage.IDLE

    @property
    def frame_bytes(self) -> int:
        """Bytes of the unfinished frame that have arrived."""
        return self._backlog.size_bytes
