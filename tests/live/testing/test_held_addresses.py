"""No other program gets the address of a broker that a test has killed."""

import errno
import socket
import sys

import pytest

from coterie.testing import Cluster


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two sockets have one address")
def test_a_dead_broker_keeps_its_address_until_the_cluster_is_closed() -> None:
    with Cluster(topics={"t": 3}) as kafka:
        host, port = kafka.address(2).rsplit(":", 1)
        address = (host, int(port))
        kafka.kill(2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with socket.socket() as other, pytest.raises(OSError) as refused:  # noqa: PT011
            other.bind(address)
        assert refused.value.errno == errno.EADDRINUSE
        kafka.start(2)
        socket.create_connection(address).close()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(address)
