"""Connections in memory between asyncio clients and a broker in the same event loop.

Bytes arrive half a millisecond later, in the order in which they were written, and nothing is lost.
Without that time a client that asks again and again without a pause, as aiokafka does while a
partition has no leader, would ask forever in the same moment.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from coterie.conversation.pipe import MemoryTransport

# Lets the broker serve a transport, whose protocol it sets.
Accept = Callable[[asyncio.Transport], asyncio.BaseProtocol]

_CLIENT = ("127.0.0.1", 50_000)
# How long bytes are on their way.
_LATENCY_S = 0.0005


class Frame(NamedTuple):
    """Bytes that one end has written.

    Attributes:
        at_ms: when, in epoch milliseconds.
        connection: the number of the connection in the block, from 1.
        by_client: whether the client has written them.
        data: the bytes.
    """

    at_ms: int
    connection: int
    by_client: bool
    data: bytes


def connect(
    loop: asyncio.AbstractEventLoop,
    client: asyncio.Protocol,
    accept: Accept,
    trace: list[Frame],
    now_ms: Callable[[], int],
) -> tuple[asyncio.Transport, asyncio.Protocol]:
    """Connect a client to the broker; return transport and protocol as `create_connection` does.

    Raises:
        ConnectionRefusedError: the broker does not accept it.
    """
    number = 1 + max((each.connection for each in trace), default=0)
    record = _Recorder(trace, number, now_ms)
    client_end, server_end = _End(loop, record, by_client=True), _End(loop, record, by_client=False)
    client_end.peer, server_end.peer = server_end, client_end
    client_end.set_protocol(client)
    accept(server_end)
    if server_end.is_closing():
        raise ConnectionRefusedError("the broker does not accept the connection")
    client.connection_made(client_end)
    return client_end, client


async def connect_with_tls(
    loop: asyncio.AbstractEventLoop,
    client: asyncio.Protocol,
    connected: tuple[asyncio.Transport, asyncio.Protocol],
    context: ssl.SSLContext,
    host: str,
) -> tuple[asyncio.Transport, asyncio.Protocol]:
    """Encrypt a connection that `connect` has made for nobody, and give it to a client.

    Raises:
        SSLError, ConnectionError: the handshake fails.
    """
    transport = await loop.start_tls(connected[0], client, context, server_hostname=host)
    assert transport is not None, "a connection that was lost is an error"
    client.connection_made(transport)
    return transport, client


def accepting(factory: Callable[[], asyncio.BaseProtocol]) -> Accept:
    """Return what serves a transport with a new protocol."""

    def accept(transport: asyncio.Transport) -> asyncio.BaseProtocol:
        protocol = factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return protocol

    return accept


class _Recorder:
    """Keeps what is written on one connection."""

    def __init__(self, trace: list[Frame], number: int, now_ms: Callable[[], int]) -> None:
        self._trace = trace
        self._number = number
        self._now_ms = now_ms
        trace.append(Frame(now_ms(), number, by_client=True, data=b""))

    def add(self, data: bytes, *, by_client: bool) -> None:
        self._trace.append(Frame(self._now_ms(), self._number, by_client, data))


class _IntoBuffers(asyncio.Protocol):
    """Passes bytes on to a protocol that has buffers of its own, as those of TLS have.

    Attributes:
        inner: that protocol.
    """

    def __init__(self, inner: asyncio.BufferedProtocol) -> None:
        self.inner = inner

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            buffer = memoryview(self.inner.get_buffer(len(rest)))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            self.inner.buffer_updated(count)
            rest = rest[count:]


class _End(MemoryTransport):
    """One end of a connection."""

    peer: "_End"
    # What asyncio looks for before it encrypts a connection.
    _start_tls_compatible = True

    def __init__(
        self, loop: asyncio.AbstractEventLoop, record: _Recorder, *, by_client: bool
    ) -> None:
        super().__init__(_CLIENT)
        self._loop = loop
        self._record = record
        self._by_client = by_client
        # What arrived while the protocol did not read.
        self._unread: list[bytes] = []
        self._error: Exception | None = None
        # What is on its way to the peer, in order; None is the end.
        self._sent: deque[bytes | None] = deque()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        if isinstance(protocol, asyncio.BufferedProtocol):
            protocol = _IntoBuffers(protocol)
        super().set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol = super().get_protocol()
        return protocol.inner if isinstance(protocol, _IntoBuffers) else protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed or not data:
            return
        sent = bytes(data)
        self._record.add(sent, by_client=self._by_client)
        self._send(sent)

    def _send(self, sent: bytes | None) -> None:
        """Let bytes or the end arrive later; the order of timers of one moment is not certain."""
        self._sent.append(sent)
        self._loop.call_later(_LATENCY_S, self._arrive)

    def _arrive(self) -> None:
        sent = self._sent.popleft()
        if sent is None:
            self.peer.close()
        else:
            self.peer.arrived(sent)

    def arrived(self, data: bytes) -> None:
        """Pass bytes of the peer on."""
        if self.closed:
            return
        if not self.reading:
            self._unread.append(data)
        elif self.protocol is not None:
            self.protocol.data_received(data)

    def resume_reading(self) -> None:
        super().resume_reading()
        unread, self._unread = self._unread, []
        for data in unread:
            self._loop.call_soon(self.arrived, data)

    def _force_close(self, exc: Exception | None) -> None:
        """Close the connection; asyncio's own TLS calls it when a handshake or a record is bad."""
        self._error = exc
        self.abort()

    def _ended(self) -> None:
        self._loop.call_soon(self._lost)
        self._send(None)

    def _lost(self) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(self._error)
