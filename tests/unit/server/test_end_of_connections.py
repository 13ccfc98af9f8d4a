"""The server ends its side of a connection; the peer may have reset the connection already.

The sockets are real, because the error comes from the operating system.
"""

import socket
import struct

import pytest

from coterie.server.network.connection import Connection
from tests.unit.server.manual import Client, FakeTransport, make_broker


class _Ended(FakeTransport):
    """A transport with a socket, as `_SelectorSocketTransport` of asyncio has."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        self.socket = connected

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.socket if name == "socket" else super().get_extra_info(name, default)

    def write_eof(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)


def _connection_over(connected: socket.socket) -> tuple[Connection, _Ended]:
    client = Client(make_broker())
    transport = _Ended(connected)
    client.connection._transport = transport
    return client.connection, transport


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        return listener.accept()[0], peer


def test_end_of_a_connection_that_the_peer_has_reset_aborts_it() -> None:
    connected, peer = _pair()
    # A linger of 0 s makes the close a reset. It has arrived when a read fails.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    connected.settimeout(60)
    with pytest.raises(ConnectionResetError):
        connected.recv(1)
    connection, transport = _connection_over(connected)
    connection.end()
    assert transport.aborted
    connected.close()


def test_end_of_a_connection_leaves_the_side_of_the_peer_open() -> None:
    connected, peer = _pair()
    connection, transport = _connection_over(connected)
    connection.end()
    assert peer.recv(1) == b""
    assert not transport.aborted
    peer.sendall(b"late")
    assert connected.recv(4) == b"late"
    peer.close()
    connected.close()
