"""GET /metrics: a port on which Prometheus finds the numbers of the broker.

As little HTTP as that takes: one request a connection, GET or HEAD, no body, closed after the
answer. It stands on the same host as the main port, so what is said there about other machines
holds here.

Invariants: a connection lives `DEADLINE_S` at most; bytes of a request are bounded, and so are the
connections; however many ask at once, the numbers are gathered once for all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from coterie.server.metrics.exposition import CONTENT_TYPE

# A scraper's request has some 300 bytes; 8 KiB is what most HTTP servers take for all headers.
REQUEST_BYTES = 8 * 1024
# From connecting to the last byte of the answer. Scrapers give up after ten seconds by default.
DEADLINE_S = 5.0
# One Prometheus has one connection a time; the others are people who look.
CONNECTIONS = 8

_PATH = "/metrics"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}


class MetricsListener:
    """The port and its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        collect: Callable[[], Awaitable[bytes]],
        failed: Callable[[Exception], None],
    ) -> None:
        """Nothing is listened to yet.

        Args:
            loop: the event loop.
            collect: makes the text of all metrics.
            failed: told when that raises; the scraper gets a 500.
        """
        self.loop = loop
        self._collect = collect
        self._failed = failed
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._gathering: asyncio.Task[bytes | None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is given by the system for 0.

        Raises:
            OSError: the address can't be used.
        """
        self._server = await self.loop.create_server(lambda: _Connection(self), host, port)
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        if self._gathering is not None:
            self._gathering.cancel()
        for connection in list(self._connections):
            connection.abort()

    def admit(self, connection: "_Connection") -> bool:
        """Take a connection in, unless there are too many."""
        if len(self._connections) >= CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: "_Connection") -> None:
        """The connection is gone."""
        self._connections.discard(connection)

    def answer(self, connection: "_Connection", *, body: bool) -> None:
        """Give the connection the metrics as soon as they are gathered."""
        if self._gathering is None:
            self._gathering = self.loop.create_task(self._gather())
        self._gathering.add_done_callback(lambda done: _deliver(connection, done, body=body))

    async def _gather(self) -> bytes | None:
        try:
            return await self._collect()
        except Exception as error:  # noqa: BLE001 - a number that can't be had does not end the broker
            self._failed(error)
            return None
        finally:
            self._gathering = None


def _deliver(connection: "_Connection", done: "asyncio.Task[bytes | None]", *, body: bool) -> None:
    text = None if done.cancelled() else done.result()
    if text is None:
        connection.respond(500, b"the metrics could not be gathered; see the log\n", body=body)
    else:
        connection.respond(200, text, body=body)


class _Connection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, listener: MetricsListener) -> None:
        self._listener = listener
        self._received = b""
        self._asked = False
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._listener.admit(self):
            self._transport.abort()
            return
        self._deadline = self._listener.loop.call_later(DEADLINE_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why makes no difference
        if self._deadline is not None:
            self._deadline.cancel()
        self._listener.forget(self)

    def data_received(self, data: bytes) -> None:
        if self._asked:
            return  # A second request on the connection; the answer says that it will be closed.
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 and len(self._received) <= REQUEST_BYTES:
            return
        self._asked = True
        if end < 0 or end > REQUEST_BYTES:
            self.respond(431, b"")
            return
        self._handle(self._received[: self._received.index(b"\r\n")])

    def _handle(self, line: bytes) -> None:
        words = line.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            self.respond(400, b"this is no HTTP request\n")
            return
        method, target, _ = words
        body = method != b"HEAD"
        if method not in (b"GET", b"HEAD"):
            self.respond(405, b"only GET and HEAD\n")
        elif target.partition(b"?")[0] != _PATH.encode():
            self.respond(404, f"there is only {_PATH}\n".encode(), body=body)
        else:
            self._listener.answer(self, body=body)

    def respond(self, status: int, content: bytes, *, body: bool = True) -> None:
        """Answer and close; nothing where the peer is gone."""
        if self._transport.is_closing():
            return
        head = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(content)}",
            *(("Allow: GET, HEAD",) if status == 405 else ()),
            "Connection: close",
            "\r\n",
        ]
        self._transport.write("\r\n".join(head).encode() + (content if body else b""))
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()
