"""Several listeners of one broker: each client is given the addresses of its own."""

import socket

import pytest

from coterie.address import Address
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.server.config.sources import ConfigError
from coterie.server.network.connection import Connection
from tests.unit.server.manual import make_broker
from tests.unit.server.running import RunningBroker, SocketClient

_FREE = Address("127.0.0.1", 0)
_ELSEWHERE = Address("broker.example", 19092)


def _told(port: int) -> set[tuple[str, int]]:
    """Return every address that a client at a port is given."""
    with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=False)
        found = [
            # The second answer is made of kept parts.
            *client.call(MetadataRequest(topics=None), 9).brokers,
            *client.call(MetadataRequest(topics=None), 9).brokers,
            *client.call(cluster, 0).brokers,
            *client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators,
        ]
    assert len(found) == 4
    return {(each.host, each.port) for each in found}


def test_a_client_is_given_the_addresses_of_its_listener() -> None:
    """[topics/endpoint-of-a-listener]"""
    listeners = (Listener(_FREE), Listener(_FREE, "SECOND", advertised=_ELSEWHERE))
    with RunningBroker(listeners=listeners) as running:
        first, second = running.addresses
        assert first.port != second.port
        assert _told(first.port) == {first}
        assert _told(second.port) == {_ELSEWHERE}
        assert running.broker.config.text("listeners") == f"PLAINTEXT://{first},SECOND://{second}"
        advertised = running.broker.config.text("advertised.listeners")
        assert advertised == f"PLAINTEXT://{first},SECOND://{_ELSEWHERE}"
    for address in (first, second):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


def test_clients_of_a_listener_that_is_not_advertised_are_given_no_address() -> None:
    """As in Kafka, where only the broker's own clients use such a listener."""
    listeners = (Listener(_FREE), Listener(_FREE, "SECOND", is_advertised=False))
    with RunningBroker(listeners=listeners) as running:
        address = running.addresses[1]
        with SocketClient(socket.create_connection(address)) as client:
            assert client.call(MetadataRequest(topics=None), 9).brokers == []


def test_a_plaintext_listener_makes_nothing_but_connections() -> None:
    """ADR 93: the path of a request without security is the one that it was."""
    broker = make_broker()
    assert type(broker.factory_of(Listener(_FREE))()) is Connection
    assert broker.tls_listeners == []


def test_a_listener_that_cannot_be_served_ends_the_start() -> None:
    listeners = (Listener(_FREE), Listener(_FREE, "S", SecurityProtocol.SASL_SSL))
    with pytest.raises(ConfigError, match="listener S has the mechanism GSSAPI"):
        RunningBroker(listeners=listeners).__enter__()
