"""The TLS of one connection, over `ssl.SSLObject` and two buffers in memory (ADR 93).

For the event loop this is the protocol, for the connection the transport: bytes of the peer are
decrypted and handed to `data_received` of the unchanged connection, and what that writes is
encrypted. An event loop's own TLS hides a connection until the handshake is over, so that neither
limits nor deadlines would see a peer that stops half-way.

Invariants:
* The connection is admitted, or refused, when it is accepted [connections/connection-limits].
* No byte reaches the connection before the handshake is complete, and none after it was closed.
* A failure of TLS closes this connection with one log line; no exception leaves this module.
"""

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from coterie.security.der import NotDer
from coterie.server.network.connection import Connection
from coterie.server.security.logins import Failure

if TYPE_CHECKING:
    from coterie.server.tls.listener import TlsListener

# The largest content of a record of TLS, which one read returns at most.
_RECORD_BYTES = 16_384
# What a peer may send before its handshake is complete. A hello has some hundred bytes, or some
# thousand with keys of post-quantum algorithms, and so has a chain of certificates. To check the
# certificates that fit in here takes up to 20 ms.
HANDSHAKE_BYTES = 65_536
# More than this is encrypted in several turns of the event loop: a MiB takes almost a millisecond.
_TURN_BYTES = 1024 * 1024

# What OpenSSL says if the first bytes are none of TLS.
_NO_TLS = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE")
# What it says if the client has no certificate and needs one.
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """TLS between the transport of a connection and what handles its requests."""

    __slots__ = (
        "_backlog",
        "_connection",
        "_ends_with_eof",
        "_handshake_bytes",
        "_incoming",
        "_inner",
        "_is_closing",
        "_is_open",
        "_listener",
        "_outgoing",
        "_tls",
        "_transport",
    )

    def __init__(
        self, listener: "TlsListener", connection: Connection, inner: asyncio.Protocol
    ) -> None:
        """Wait for the transport.

        Args:
            listener: what the connections of a listener share.
            connection: the connection, whose principal the certificate of the client decides.
            inner: what gets decrypted bytes: the connection, or what is around it.
        """
        self._listener = listener
        self._connection = connection
        self._inner = inner
        self._transport = cast("asyncio.Transport", None)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # None until the handshake may begin.
        self._tls: ssl.SSLObject | None = None
        self._handshake_bytes = 0
        self._is_open = False
        self._is_closing = False
        # What is still to be encrypted of large responses, and what follows it.
        self._backlog: deque[memoryview] = deque()
        self._ends_with_eof = False

    # --- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection be admitted, then wait for the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(self)
        if not self._connection.closed:
            self._listener.handshakes.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the loss on."""
        self._is_closing = True
        self._listener.handshakes.remove(self)
        self._backlog.clear()
        self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer of all connections of the listener: it is emptied in the same turn."""
        return self._listener.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Go on with the handshake, or decrypt what has arrived."""
        incoming = self._incoming
        if self._is_closing:
            return
        incoming.write(self._listener.buffer[:nbytes])
        if self._is_open:
            self._decrypt()
            return
        self._handshake_bytes += nbytes
        if self._handshake_bytes > HANDSHAKE_BYTES:
            self._fail(Failure.LIMIT, f"a handshake of more than {HANDSHAKE_BYTES} bytes")
        elif self._tls is not None:
            self._shake_hands(self._tls)

    def eof_received(self) -> bool:
        """Pass on that the peer sends no more; return whether the connection is kept."""
        return self._is_open and bool(self._inner.eof_received())

    def pause_writing(self) -> None:
        """Pass on that the peer does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the peer reads again."""
        self._inner.resume_writing()

    # --- handshake --------------------------------------------------------------------------------

    def begin_handshake(self) -> None:
        """Begin the handshake, with what has arrived of it."""
        self._tls = self._listener.context.wrap_bio(
            self._incoming, self._outgoing, server_side=True
        )
        if self._incoming.pending:
            self._shake_hands(self._tls)

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return
        except ssl.SSLError as error:
            # With the alert that says why.
            self._send()
            self._fail(_failure(error), _reason(error))
            return
        self._send()
        self._is_open = True
        self._listener.handshakes.remove(self)
        try:
            self._listener.identify(self._connection, tls)
        except NotDer as error:
            self._fail(Failure.CERTIFICATE, f"the certificate cannot be read: {error}")
        if not self._is_closing and (self._incoming.pending or tls.pending()):
            self._decrypt()

    def give_up(self, reason: str) -> None:
        """Close a connection whose handshake takes too long."""
        self._listener.fail(self._connection, Failure.LIMIT, "HandshakeLimit", reason, abort=True)

    def _fail(self, failure: Failure, reason: str) -> None:
        self._listener.fail(self._connection, failure, "TlsError", reason)

    # --- bytes ------------------------------------------------------------------------------------

    def _decrypt(self) -> None:
        """Hand everything that can be decrypted to the connection, in one piece."""
        tls, incoming = cast("ssl.SSLObject", self._tls), self._incoming
        try:
            data = tls.read(_RECORD_BYTES)
            # Asked first, because a read that finds no complete record raises, which is dear.
            if incoming.pending or tls.pending() or not data:
                data = self._decrypt_rest(tls, data)
        except ssl.SSLWantReadError:
            data = b""
        except ssl.SSLError as error:
            self._send()
            self._connection.close("TlsError", _reason(error))
            return
        if data:
            self._inner.data_received(data)
        if self._outgoing.pending:
            # The answer to new keys of the peer, or to its wish to negotiate anew.
            self._send()

    def _decrypt_rest(self, tls: ssl.SSLObject, first: bytes) -> bytes:
        parts, incoming = [first], self._incoming
        try:
            while parts[-1] and (incoming.pending or tls.pending()):
                parts.append(tls.read(_RECORD_BYTES))
        except ssl.SSLWantReadError:
            pass
        if not parts[-1]:
            # The peer sends no more. This ends the connection after the requests in front of it.
            self._listener.loop.call_soon(self._end_of_peer)
        return b"".join(parts)

    def _end_of_peer(self) -> None:
        """Do as if the peer had closed its side of the transport."""
        if not self._is_closing and not self._inner.eof_received():
            self.close()

    def _send(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # --- called by the connection, as a transport -------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send bytes; large ones in several turns."""
        if self._is_closing or self._tls is None:
            return
        if self._backlog or len(data) > _TURN_BYTES:
            self._queue(data)
            return
        written = self._tls.write(data)
        if written < len(data):
            self._encrypt(memoryview(data)[written:])
        self._transport.write(self._outgoing.read())

    def _encrypt(self, rest: memoryview) -> None:
        """Encrypt bytes, of which one write takes a record."""
        tls, written = cast("ssl.SSLObject", self._tls), 0
        while written < len(rest):
            written += tls.write(rest[written:])

    def _queue(self, data: bytes | bytearray | memoryview) -> None:
        if not self._backlog:
            self._listener.loop.call_soon(self._encrypt_backlog)
        self._backlog.append(memoryview(data))

    def _encrypt_backlog(self) -> None:
        if not self._backlog:
            # The connection was lost.
            return
        first = self._backlog.popleft()
        if len(first) > _TURN_BYTES:
            self._backlog.appendleft(first[_TURN_BYTES:])
        self._encrypt(first[:_TURN_BYTES])
        self._transport.write(self._outgoing.read())
        if self._backlog:
            self._listener.loop.call_soon(self._encrypt_backlog)
        elif self._is_closing:
            self._say_goodbye()

    def close(self) -> None:
        """Close after what was written."""
        self._end(with_eof=False)

    def write_eof(self) -> None:
        """End this side; what the peer still sends is ignored."""
        self._end(with_eof=True)

    def _end(self, *, with_eof: bool) -> None:
        if self._is_closing:
            return
        self._is_closing, self._ends_with_eof = True, with_eof
        if not self._backlog:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        """Send a close_notify and close; that of the peer is not waited for."""
        if self._is_open and self._tls is not None:
            # It raises, because the peer has not answered, or was still sending.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
        self._send()
        if self._ends_with_eof:
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self._backlog.clear()
        self._transport.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand decrypted bytes to something else from now on, because the client has logged in."""
        self._inner = cast("asyncio.Protocol", protocol)

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows, such as the peer's address."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the peer has not taken, encrypted or not."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._backlog))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when writing is paused."""
        self._transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()


def _failure(error: ssl.SSLError) -> Failure:
    """Return what a handshake has failed of, by OpenSSL's reason."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError) or reason == _NO_CERTIFICATE:
        return Failure.CERTIFICATE
    return Failure.ALERT if "_ALERT_" in reason else Failure.TLS


def _reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason, with what it means where that is not plain."""
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}: {error.verify_message}"
    return f"{reason}: the peer does not speak TLS" if reason in _NO_TLS else reason
