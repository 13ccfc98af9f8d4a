"""The layer of TLS alone, between a transport in memory and a connection that is none."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie.server.network.connection import Connection
from coterie.server.tls.connection import TlsConnection
from coterie.server.tls.listener import TlsListener
from tests.unit.server.certificates import Files, client_context, write_certificates

_MIB = 1024 * 1024


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


class Turns:
    """An event loop whose turns the test makes."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call_soon(self, call: Any, *arguments: Any) -> None:
        self.calls.append(lambda: call(*arguments))

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Wire(asyncio.Transport):
    """What the layer writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.ends: list[str] = []

    def write(self, data: Any) -> None:
        assert not self.ends, "nothing is written after the end"
        self.sent += data

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")

    def write_eof(self) -> None:
        self.ends.append("eof")

    def get_write_buffer_size(self) -> int:
        return 7


class Inner(asyncio.Protocol):
    """What gets decrypted bytes."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.closed = False
        self.reasons: list[tuple[str, str]] = []
        self.keeps_after_eof = False
        self.layer: TlsConnection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.layer = cast("TlsConnection", transport)

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def eof_received(self) -> bool:
        return self.keeps_after_eof

    def close(self, error: str, reason: str, *, abort: bool = False) -> None:
        self.closed = True
        self.reasons.append((error, reason))
        if abort:
            self.layer.abort()
        else:
            self.layer.close()


class Pair:
    """The layer, and a client of TLS at the other end of the wire."""

    def __init__(self, files: Files) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server)
        self.turns, self.wire, self.inner = Turns(), Wire(), Inner()
        added: list[TlsConnection] = []
        handshakes = SimpleNamespace(add=added.append, remove=lambda _: None)
        self.buffer = memoryview(bytearray(65_536))
        listener = SimpleNamespace(
            loop=self.turns,
            context=context,
            buffer=self.buffer,
            handshakes=handshakes,
            identify=lambda _connection, _tls: None,
        )
        self.layer = TlsConnection(
            cast("TlsListener", listener), cast("Connection", self.inner), self.inner
        )
        self.layer.connection_made(self.wire)
        assert added == [self.layer]
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context(files).wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost"
        )

    def shake_hands(self) -> None:
        self.layer.begin_handshake()
        for _ in range(3):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
            else:
                self.exchange()
                return

    def exchange(self) -> None:
        """Carry bytes in both directions."""
        self.feed(self.outgoing.read())
        self.incoming.write(bytes(self.wire.sent))
        self.wire.sent.clear()

    def feed(self, data: bytes) -> None:
        while data:
            piece, data = data[: len(self.buffer)], data[len(self.buffer) :]
            self.layer.get_buffer(-1)[: len(piece)] = piece
            self.layer.buffer_updated(len(piece))

    def read(self, size: int) -> bytes:
        self.exchange()
        data = b""
        while len(data) < size:
            data += self.client.read(size - len(data))
        return data


@pytest.fixture
def pair(files: Files) -> Pair:
    pair = Pair(files)
    pair.shake_hands()
    return pair


def test_records_of_one_read_are_handed_over_in_one_piece(pair: Pair) -> None:
    for each in (b"a", b"b" * 20_000, b"c"):
        rest = memoryview(each)
        while rest:
            rest = rest[pair.client.write(rest) :]
    pair.exchange()
    assert pair.inner.received == [b"a" + b"b" * 20_000 + b"c"]


def test_a_large_answer_is_encrypted_in_turns(pair: Pair) -> None:
    large = bytes(range(256)) * (5 * _MIB // 512)
    pair.layer.write(large)
    pair.layer.write(b"behind")
    assert not pair.wire.sent
    assert pair.layer.get_write_buffer_size() == 7 + len(large) + 6
    sizes = []
    while pair.turns.calls:
        before = len(pair.wire.sent)
        pair.turns.turn()
        sizes.append(len(pair.wire.sent) - before)
    assert all(size < _MIB + 50_000 for size in sizes)
    assert pair.read(len(large) + 6) == large + b"behind"
    assert pair.layer.get_write_buffer_size() == 7


@pytest.mark.parametrize("end", ["close", "eof"])
def test_the_end_waits_for_what_was_written(pair: Pair, end: str) -> None:
    pair.layer.write(bytes(2 * _MIB))
    if end == "close":
        pair.layer.close()
    else:
        pair.layer.write_eof()
    pair.layer.write(b"never sent")
    assert pair.layer.is_closing()
    assert pair.wire.ends == []
    while pair.turns.calls:
        pair.turns.turn()
    assert pair.wire.ends == [end]
    assert pair.read(2 * _MIB) == bytes(2 * _MIB)
    # Nothing more is read behind a close_notify.
    assert pair.client.read(1) == b""


def test_an_abort_drops_what_is_left(pair: Pair) -> None:
    pair.layer.write(bytes(2 * _MIB))
    pair.layer.abort()
    pair.turns.turn()
    assert pair.wire.ends == ["abort"]
    assert not pair.wire.sent


def test_nothing_is_read_after_the_end(pair: Pair) -> None:
    pair.client.write(b"late")
    pair.layer.write_eof()
    pair.feed(pair.outgoing.read())
    assert pair.inner.received == []


def test_the_loss_of_the_connection_ends_the_backlog(pair: Pair) -> None:
    pair.layer.write(bytes(2 * _MIB))
    pair.layer.connection_lost(None)
    pair.turns.turn()
    assert not pair.wire.sent


@pytest.mark.parametrize("keeps", [False, True])
def test_a_close_notify_is_an_end_of_file(pair: Pair, keeps: bool) -> None:
    pair.inner.keeps_after_eof = keeps
    pair.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.exchange()
    assert pair.inner.received == [b"last"]
    pair.turns.turn()
    assert pair.wire.ends == ([] if keeps else ["close"])


def test_a_broken_record_closes_the_connection(pair: Pair) -> None:
    """With the reason, and an alert."""
    pair.feed(b"\x17\x03\x03\x00\x20" + bytes(32))
    ((error, reason),) = pair.inner.reasons
    assert error == "TlsError"
    assert reason
    assert pair.wire.sent
    assert pair.wire.ends == ["close"]


def test_before_the_handshake_nothing_is_sent(files: Files) -> None:
    pair = Pair(files)
    assert not pair.layer.eof_received()
    pair.layer.write(b"x")
    pair.layer.close()
    assert pair.wire.ends == ["close"]
    assert not pair.wire.sent
