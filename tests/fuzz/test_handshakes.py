"""Handshakes and records of TLS with changed bytes: no request behind them is handled."""

import random
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.frames import encode_request
from coterie.server.broker import Broker
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay
from tests.unit.server.certificates import (
    SSL,
    Files,
    client_context,
    tls_client,
    write_certificates,
)
from tests.unit.server.running import RunningBroker
from tests.unit.server.test_tls import HELLO, MemoryClient

_CASES = 300
Change = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def insert(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randint(1, 40)) + data[at:]


def repeat(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data + data[at:] + data


class ChangingClient(MemoryClient):
    """A client that changes what it sends in one of its flights: hello, finish, request."""

    def __init__(
        self, running: RunningBroker, files: Files, chance: random.Random, change: Change
    ) -> None:
        super().__init__(running, files)
        self.socket.settimeout(0.3)
        self._chance, self._change = chance, change
        self._flights_before = chance.randrange(3)

    def flush(self, piece: int = 1 << 20) -> None:
        data = self.outgoing.read()
        if data and self._flights_before == 0:
            data = self._change(self._chance, data)
        self._flights_before -= bool(data)
        self.socket.sendall(data)


@pytest.mark.parametrize("change", [flip, cut, insert, repeat], ids=lambda each: each.__name__)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_behind_changed_bytes_is_handled(
    change: Change, version: ssl.TLSVersion, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = write_certificates(tmp_path_factory.mktemp("certificates"))
    handled: list[int] = []

    def counted(below: Handler) -> Handler:
        def handle(broker: Any, request: Any, connection: Any) -> Any:
            handled.append(connection.correlation_id)
            return below(broker, request, connection)

        return handle

    def count(broker: Broker) -> None:
        broker.use_routes(Overlay(broker.routes, {ApiKey.API_VERSIONS: counted}))

    settings = {
        "ssl.keystore.location": files.server,
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.protocol": "TLSv1.2" if version is ssl.TLSVersion.TLSv1_2 else "TLSv1.3",
    }
    chance = random.Random(f"{change.__name__} {version}")
    with RunningBroker(settings, prepare=count, listeners=[SSL]) as running:
        for number in range(_CASES // 8):
            with ChangingClient(running, files, chance, change) as client:
                try:
                    client.shake_hands()
                    client.tls.write(encode_request(HELLO, 3, number + 1, "c"))
                    client.flush()
                    client.socket.shutdown(socket.SHUT_WR)
                    client.answer()
                except (ssl.SSLError, OSError, EOFError):
                    pass
        if change is not repeat:
            # A repeated flight follows one that is as it should be.
            assert handled == []
        with tls_client(running, client_context(files)) as other:
            assert other.call(HELLO, 3).error_code == 0
        assert running.log.named("request failed") == []
        assert set(running.close_errors()) <= {"TlsError"}
