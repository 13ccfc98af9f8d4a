"""Peers that do not finish a handshake: deadlines and limits."""

import socket
import ssl
from contextlib import ExitStack

import pytest

from coterie.server.network import limits
from coterie.server.tls import handshakes
from coterie.server.tls.listener import TlsListener
from tests.unit.server.certificates import (
    Files,
    client_context,
    tls_broker,
    tls_client,
    write_certificates,
)
from tests.unit.server.running import RunningBroker, is_closed
from tests.unit.server.test_tls import HELLO, MemoryClient


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def unfinished(running: RunningBroker) -> int:
    (listener,) = running.broker.tls_listeners
    assert isinstance(listener, TlsListener)
    count: int = running.call(lambda: len(listener.handshakes))
    return count


def sweep_after(running: RunningBroker, milliseconds: int) -> None:
    """Let the sweep find all connections as they are so much later."""
    broker = running.broker
    running.call(lambda: broker.connection_quotas.sweep(broker.now_ms() + milliseconds))


class TestDeadline:
    """[security/login-deadline]"""

    @pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
    def test_a_handshake_that_stops_ends(self, files: Files, data: bytes) -> None:
        with tls_broker(files) as running, running.connect() as stream:
            stream.sendall(data)
            running.wait_for(lambda: unfinished(running) == 1)
            sweep_after(running, limits.LOGIN_DEADLINE_MS - 1_000)
            assert unfinished(running) == 1
            sweep_after(running, limits.LOGIN_DEADLINE_MS)
            assert is_closed(stream)
            assert running.close_errors() == ["LoginTimeout"]
            running.wait_for(lambda: not unfinished(running))

    def test_a_handshake_is_not_late_because_bytes_arrive(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            with pytest.raises(ssl.SSLWantReadError):
                client.tls.do_handshake()
            hello = client.outgoing.read()
            for byte in hello[:20]:
                client.socket.sendall(bytes([byte]))
                sweep_after(running, 500)
            sweep_after(running, limits.LOGIN_DEADLINE_MS)
            assert is_closed(client.socket)

    def test_a_client_that_has_logged_in_may_be_idle(self, files: Files) -> None:
        with (
            tls_broker(files) as running,
            tls_client(running, client_context(files)) as client,
        ):
            assert client.call(HELLO, 3).error_code == 0
            sweep_after(running, 10 * limits.LOGIN_DEADLINE_MS)
            assert client.call(HELLO, 3).error_code == 0


class TestLimit:
    """[security/login-deadline]"""

    def test_stopped_handshakes_keep_nobody_out(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(handshakes, "MOST_HANDSHAKES", 4)
        monkeypatch.setattr(handshakes, "STALLED_MS", 50)
        with tls_broker(files) as running, ExitStack() as stack:
            stopped = [stack.enter_context(running.connect()) for _ in range(10)]
            for stream in stopped:
                stream.sendall(b"\x16")
            running.wait_for(lambda: unfinished(running) == 10)
            with tls_client(running, client_context(files)) as client:
                assert client.call(HELLO, 3).error_code == 0
            assert set(running.close_errors()) == {"HandshakeLimit"}
            running.wait_for(lambda: 0 < unfinished(running) <= 4)

    def test_a_burst_is_served(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handshakes, "MOST_HANDSHAKES", 2)
        with tls_broker(files) as running, ExitStack() as stack:
            clients = [stack.enter_context(MemoryClient(running, files)) for _ in range(12)]
            # Which of them is the newest is known when all are accepted.
            running.wait_for(lambda: unfinished(running) == len(clients))
            # After the first two the newest begin.
            for client in (*clients[:2], *reversed(clients[2:])):
                client.shake_hands()
            running.wait_for(lambda: unfinished(running) == 0)
            assert running.close_errors() == []

    def test_who_waits_and_sends_on_is_closed(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(handshakes, "MOST_HANDSHAKES", 0)
        monkeypatch.setattr(handshakes.Handshakes, "_go_on", lambda _: None)
        with tls_broker(files) as running, running.connect() as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(3):
                stream.sendall(bytes(40_000))
            assert is_closed(stream)
            assert running.close_errors() == ["TlsError"]

    def test_connections_count_from_the_accept(self, files: Files) -> None:
        with tls_broker(files, max_connections="2") as running, ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(running.connect())
            running.wait_for(lambda: unfinished(running) == 2)
            assert is_closed(stack.enter_context(running.connect()))
            assert running.close_errors() == ["ConnectionLimit"]
