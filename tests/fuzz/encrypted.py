"""TLS with changed bytes: no request behind a changed hello, finish or record is handled."""

import random
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.frames import encode_request
from coterie.server.broker import Broker
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay
from tests.fuzz.target import Finding
from tests.unit.server.certificates import SSL, client_context, write_certificates
from tests.unit.server.manual import FakeTransport, log_of, loop_of, make_broker
from tests.unit.server.test_tls import HELLO

Change = Callable[[random.Random, bytes], bytes]
_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
# A client sends its hello, its finish and a request.
_FLIGHTS = 3


def flip(chance: random.Random, data: bytes) -> bytes:
    """Change one bit."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def cut(chance: random.Random, data: bytes) -> bytes:
    """Leave the end out."""
    return data[: chance.randrange(len(data))]


def insert(chance: random.Random, data: bytes) -> bytes:
    """Put other bytes between."""
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randint(1, 40)) + data[at:]


def repeat(chance: random.Random, data: bytes) -> bytes:
    """Send a part again, and then everything: a replay."""
    at = chance.randrange(len(data))
    return data + data[at:] + data


CHANGES: tuple[Change, ...] = (flip, cut, insert, repeat)


def counting_handled(broker: Broker, handled: list[int]) -> None:
    """Let a broker note the requests that it handles, by their correlation ids."""

    def counted(below: Handler) -> Handler:
        def handle(broker: Any, request: Any, connection: Any) -> Any:
            handled.append(connection.correlation_id)
            return below(broker, request, connection)

        return handle

    broker.use_routes(Overlay(broker.routes, {ApiKey.API_VERSIONS: counted}))


class TlsTarget:
    """A broker with a TLS listener, without sockets.

    Attributes:
        outcomes: how many connections ended how.
    """

    def __init__(self, seed: int) -> None:
        """Start a broker; clients without a certificate are served."""
        self.outcomes: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._handled: list[int] = []
        with TemporaryDirectory() as directory:
            files = write_certificates(Path(directory))
            self._broker = make_broker(
                {
                    "ssl.keystore.location": files.server,
                    "ssl.truststore.location": files.authority,
                    "ssl.client.auth": "requested",
                }
            )
            self._accept = self._broker.factory_of(SSL)
            self._contexts = [client_context(files, each) for each in (None, files.alice)]
        counting_handled(self._broker, self._handled)

    def feed(self) -> None:
        """Let a client connect and send a request; one of its flights is changed.

        Raises:
            Finding: the request was handled though bytes were changed, or an exception escaped.
        """
        chance = self._chance
        self._handled.clear()
        log_of(self._broker).lines.clear()
        self._broker.connection_quotas._close_lines = 0
        client = _Client(self._broker, self._accept(), chance.choice(self._contexts), chance)
        change, changed = chance.choice((None, *CHANGES)), chance.randrange(_FLIGHTS)
        try:
            client.converse(change, changed)
        except Exception as error:
            raise Finding(client.sent, f"{type(error).__name__} escaped: {error}") from error
        log = log_of(self._broker)
        if client.has_changed and change is not repeat and self._handled:
            raise Finding(client.sent, f"a request was handled behind changed bytes: {change}")
        if not client.has_changed and self._handled != [1]:
            raise Finding(client.sent, f"a right client was not served: {log.lines}")
        if wrong := {each["error"] for each in log.named("connection closed")} - {"TlsError"}:
            raise Finding(client.sent, f"a connection was closed with {wrong}")
        if len(self._broker.connection_quotas) or self._broker.connection_quotas.buffered_bytes:
            raise Finding(client.sent, "a connection that was lost is still counted")
        self.outcomes["handled" if self._handled else "refused"] += 1


class _Client:
    """A client of TLS in memory.

    Attributes:
        sent: what the broker got.
        has_changed: whether some of it was changed.
    """

    def __init__(
        self, broker: Broker, server: Any, context: ssl.SSLContext, chance: random.Random
    ) -> None:
        self.sent, self.has_changed = b"", False
        self._loop = loop_of(broker)
        self._server, self._chance = server, chance
        self._transport = FakeTransport()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context.maximum_version = chance.choice(_VERSIONS)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        server.connection_made(self._transport)

    def converse(self, change: Change | None, changed: int) -> None:
        """Shake hands, send a request, and go."""
        for flight in range(2 * _FLIGHTS):
            is_last = False
            try:
                self._tls.do_handshake()
                self._tls.write(encode_request(HELLO, 3, 1, "c"))
                is_last = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                break
            data = self._outgoing.read()
            if change is not None and flight == changed and data:
                data, self.has_changed = change(self._chance, data), True
            self._send(data)
            if is_last:
                break
        self._server.eof_received()
        self._loop.turn()
        self._server.connection_lost(None)

    def _send(self, data: bytes) -> None:
        """Send bytes in pieces, and take what is answered."""
        chance = self._chance
        while data and not self._transport.closed:
            size = chance.choice((1, 5, 100, len(data)))
            piece, data = data[:size], data[size:]
            self.sent += piece
            self._server.get_buffer(-1)[: len(piece)] = piece
            self._server.buffer_updated(len(piece))
            self._loop.turn()
        self._incoming.write(b"".join(self._transport.written))
        self._transport.written.clear()
