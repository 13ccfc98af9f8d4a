"""One connection: negotiation of versions, and invalid responses."""

import socket
import struct
import threading
from collections.abc import Callable

import pytest

from coterie.address import Address
from coterie.client.connection import Connection, Deadline
from coterie.client.errors import (
    BrokerTimedOut,
    BrokerUnreachable,
    ConnectionLost,
    VersionUnsupported,
)
from coterie.processes import free_port
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.messages.api_versions import ApiVersionsResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.client.fake_broker import SILENCE, FakeBroker
from tests.unit.server.running import PATIENCE_S

NO_GROUPS = ListGroupsResponse(error_code=0, groups=[])
# The response to the second request of a connection.
RESPONSE = ListGroupsResponse.framer(5)(NO_GROUPS, 2)


def address_of(broker: FakeBroker) -> Address:
    return Address(broker.host, broker.port)


def list_groups(broker: FakeBroker) -> ListGroupsResponse:
    deadline = Deadline(PATIENCE_S)
    connection = Connection.open(address_of(broker), deadline)
    try:
        return connection.call(ListGroupsRequest(), ListGroupsResponse, deadline)
    finally:
        connection.close()


def test_highest_common_version_is_used() -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.LIST_GROUPS: (0, 3)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        assert list_groups(broker).groups == []
        assert broker.versions(ApiKey.LIST_GROUPS) == [3]
        assert broker.versions(ApiKey.API_VERSIONS) == [4]


def test_newer_broker_gets_our_newest_version() -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.LIST_GROUPS: (2, 99)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        list_groups(broker)
        assert broker.versions(ApiKey.LIST_GROUPS) == [5]


def test_negotiation_with_an_older_broker_falls_back_to_version_0() -> None:
    ranges = {ApiKey.API_VERSIONS: (0, 2), ApiKey.LIST_GROUPS: (0, 2)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        assert list_groups(broker).groups == []
        assert broker.versions(ApiKey.API_VERSIONS)[-1] == 0
        assert broker.versions(ApiKey.LIST_GROUPS) == [2]


def test_unsupported_request_is_an_error_with_its_name() -> None:
    with (
        FakeBroker(ranges={ApiKey.API_VERSIONS: (0, 4)}) as broker,
        pytest.raises(VersionUnsupported, match="does not support ListGroups"),
    ):
        list_groups(broker)


def test_no_common_version_is_an_error_with_both_ranges() -> None:
    ranges = {ApiKey.API_VERSIONS: (0, 4), ApiKey.LIST_GROUPS: (7, 9)}
    with (
        FakeBroker(ranges=ranges) as broker,
        pytest.raises(VersionUnsupported, match=r"supports ListGroups 7 to 9.*supports 0 to 5"),
    ):
        list_groups(broker)


def test_error_in_the_negotiation_is_reported_by_name() -> None:
    response = ApiVersionsResponse(error_code=42, api_keys=[])
    with (
        FakeBroker({ApiKey.API_VERSIONS: response}) as broker,
        pytest.raises(ConnectionLost, match="INVALID_REQUEST"),
    ):
        list_groups(broker)


def test_refused_connection_is_unreachable() -> None:
    port = free_port()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}: connection refused"):
        Connection.open(Address("127.0.0.1", port), Deadline(PATIENCE_S))


def test_unknown_host_is_unreachable() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid:9092"):
        Connection.open(Address("no-such-host.invalid", 9092), Deadline(PATIENCE_S))


def test_silent_broker_times_out_at_the_deadline() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: SILENCE}) as broker:
        # The negotiation is no part of the deadline, so that only this request can miss it.
        connection = Connection.open(address_of(broker), Deadline(PATIENCE_S))
        with pytest.raises(BrokerTimedOut, match=r"ListGroupsRequest within 0\.2 s"):
            connection.call(ListGroupsRequest(), ListGroupsResponse, Deadline(0.2))
        connection.close()


def test_endless_slow_response_times_out() -> None:
    """The deadline is that of the whole response, not of each read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
        with pytest.raises(BrokerTimedOut), _dripping(server):
            Connection.open(address, Deadline(0.3))


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (None, "closed the connection at ListGroupsRequest: end of stream"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak the Kafka protocol"),
        (struct.pack(">i", -5), "does not speak the Kafka protocol"),
        (struct.pack(">iI", 4, 99), "malformed ListGroupsResponse v5"),
        (struct.pack(">i", 2) + b"ab", "malformed ListGroupsResponse v5"),
        (ListGroupsResponse.framer(5)(NO_GROUPS, 77), "response to request 77"),
        (struct.pack(">i", len(RESPONSE) - 5) + RESPONSE[4:-1], "malformed ListGroupsResponse v5"),
    ],
    ids=["hang-up", "http", "negative", "cut", "tiny", "other-correlation", "malformed"],
)
def test_invalid_response_loses_the_connection(response: bytes | None, reason: str) -> None:
    respond: Callable[..., bytes | None] = lambda request, version: response  # noqa: E731
    with (
        FakeBroker({ApiKey.LIST_GROUPS: respond}) as broker,
        pytest.raises(ConnectionLost, match=reason),
    ):
        list_groups(broker)


def test_connection_closed_during_negotiation_suggests_a_tls_listener() -> None:
    with FakeBroker({ApiKey.API_VERSIONS: lambda request, version: None}) as broker:
        with pytest.raises(ConnectionLost) as caught:
            list_groups(broker)
        assert "TLS" in caught.value.remedy


def test_broken_connection_is_marked_as_such() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: lambda request, version: None}) as broker:
        deadline = Deadline(PATIENCE_S)
        connection = Connection.open(address_of(broker), deadline)
        with pytest.raises(ConnectionLost):
            connection.call(ListGroupsRequest(), ListGroupsResponse, deadline)
        assert connection.broken


class _dripping:  # noqa: N801 - used as a context manager
    """Accept one connection and send a byte of an endless response every 20 ms."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drip)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _drip(self) -> None:
        stream, _ = self._server.accept()
        with stream:
            data = struct.pack(">i", 1000) + bytes(1000)
            for byte in data:
                try:
                    stream.sendall(bytes([byte]))
                except OSError:
                    return
                if self._stop.wait(0.02):
                    return
