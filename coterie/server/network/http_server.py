"""A small HTTP server on the broker's event loop: uvicorn, within bounds of our own.

It serves one ASGI application. uvicorn parses requests and writes answers; this module binds the
sockets, limits what a peer can take, and stops without waiting for peers. uvicorn neither handles
signals nor configures logging here: both belong to the process.

Importing this module takes a tenth of a second, so only a broker that serves HTTP imports it.

Invariants: a connection lives `DEADLINE_S` at most, unless an application has other bounds; the
headers of a request and the number of connections are bounded [metrics/access].
"""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from coterie.address import Address

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

# A scraper sends about 300 bytes; 8 KiB is the bound of most HTTP servers for all headers.
HEADER_BYTES = 8 * 1024
# From the accept to the last byte of the answer. Prometheus gives up after ten seconds by default.
DEADLINE_S = 5.0
# One Prometheus server opens one connection at a time; the others are for people.
CONNECTIONS = 8


class Bounds(NamedTuple):
    """What peers can take.

    Attributes:
        connections: how many there are at most.
        request_s: the time from the accept to the last byte of the request, or of the answer if
            that has no bound of its own.
        answer_s: the time from the last byte of the request to that of the answer; None for none
            of its own.
    """

    connections: int = CONNECTIONS
    request_s: float = DEADLINE_S
    answer_s: float | None = None


METRICS_BOUNDS = Bounds()


# How long a stopping server waits for its connections, which have been cut by then.
_STOP_S = 1

# uvicorn warns about every malformed request. A port scanner must not fill the log of the broker,
# and uvicorn's own loggers belong to the program that embeds us.
_SILENT = logging.Logger("coterie.http", logging.CRITICAL + 1)


_MALFORMED = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"connection", b"close"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"),
]


class HttpServer:
    """The sockets, connections and tasks of one ASGI application.

    Attributes:
        address: where it listens, after `start`.
    """

    def __init__(
        self,
        application: Any,
        loop: asyncio.AbstractEventLoop,
        bounds: Bounds = METRICS_BOUNDS,
        certificate: str | None = None,
    ) -> None:
        """Prepare to serve `application` (ASGI 3) on a loop; nothing listens yet.

        Args:
            application: the application.
            loop: where it runs.
            bounds: what peers can take.
            certificate: a PEM file with a key and its certificates, for TLS.
        """
        self._loop = loop
        self.address = Address("", 0)
        config = uvicorn.Config(
            application,
            interface="asgi3",
            http=partial(_Connection, bounds),  # type: ignore[arg-type]  # called like the class
            loop="none",
            ws="none",
            lifespan="off",
            workers=1,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=HEADER_BYTES,
            timeout_graceful_shutdown=_STOP_S,
            ssl_certfile=certificate,
            ssl_keyfile=certificate,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on `host`; return the port, which the system chooses if `port` is 0.

        Raises:
            OSError: the address cannot be used.
        """
        resolved = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(resolved):
                # A name such as localhost has several addresses, which share one port.
                bound_port = sockets[0].getsockname()[1] if sockets else address[1]
                sockets.append(socket.create_server((address[0], bound_port), family=family))
        except OSError:
            for each in sockets:
                each.close()
            raise
        bound_port = int(sockets[0].getsockname()[1])
        self._serving = self._loop.create_task(self._server.serve(sockets=sockets))
        await self._server.startup_ended.wait()
        if not self._server.started:
            await self._serving  # raises what went wrong
        self.address = Address(host, bound_port)
        return bound_port

    async def stop(self) -> None:
        """Close the sockets and cut every connection."""
        if self._serving is None:
            return
        self._server.should_exit = self._server.force_exit = True
        for request in list(self._server.server_state.tasks):
            request.cancel()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await self._serving


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.startup_ended = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.startup_ended.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection of uvicorn's with our bounds."""

    def __init__(self, bounds: Bounds, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self.logger = _SILENT
        self.access_log = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self._bounds.connections:
            # connection_lost is called for this connection too, and closes its transport.
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        # uvicorn limits only the time between two requests, not that of a request.
        self._deadline = self.loop.call_later(self._bounds.request_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answer_s = self._bounds.answer_s
        if answer_s is None:
            return
        # uvicorn's annotation leaves out that there is none before the headers are complete.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.more_body:
            # The request is complete, and its answer may take longer.
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = self.loop.call_later(answer_s, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        # The answer to bytes that are no request does not come from the application, whose answers
        # have headers that tell browsers to make nothing of them.
        for each in (
            h11.Response(status_code=400, headers=_MALFORMED, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(each) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)
