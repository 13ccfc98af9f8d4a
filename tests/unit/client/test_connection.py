"""One connection: negotiation, and every way a peer can fail to be a broker."""

import socket
import struct
import threading
import time
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
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.messages.api_versions import ApiVersionsResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.client.fake_broker import SILENCE, FakeBroker

NO_GROUPS = ListGroupsResponse(error_code=0, groups=[])
# The answer to the second request of a connection.
WHOLE = ListGroupsResponse.framer(5)(NO_GROUPS, 2)


def address_of(broker: FakeBroker) -> Address:
    return Address(broker.host, broker.port)


def list_groups(broker: FakeBroker, timeout_s: float = 5.0) -> ListGroupsResponse:
    deadline = Deadline(timeout_s)
    connection = Connection.open(address_of(broker), deadline)
    try:
        return connection.call(ListGroupsRequest(), ListGroupsResponse, deadline)
    finally:
        connection.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_the_highest_common_version_is_spoken() -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.LIST_GROUPS: (0, 3)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        assert list_groups(broker).groups == []
        assert broker.versions(ApiKey.LIST_GROUPS) == [3]
        assert broker.versions(ApiKey.API_VERSIONS) == [4]


def test_a_newer_broker_is_spoken_to_in_our_newest_version() -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.LIST_GROUPS: (2, 99)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        list_groups(broker)
        assert broker.versions(ApiKey.LIST_GROUPS) == [5]


def test_an_older_broker_makes_negotiation_fall_back_to_version_0() -> None:
    ranges = {ApiKey.API_VERSIONS: (0, 2), ApiKey.LIST_GROUPS: (0, 2)}
    with FakeBroker({ApiKey.LIST_GROUPS: NO_GROUPS}, ranges) as broker:
        assert list_groups(broker).groups == []
        assert broker.versions(ApiKey.API_VERSIONS)[-1] == 0
        assert broker.versions(ApiKey.LIST_GROUPS) == [2]


def test_a_request_the_broker_does_not_serve_is_refused_by_name() -> None:
    with (
        FakeBroker(ranges={ApiKey.API_VERSIONS: (0, 4)}) as broker,
        pytest.raises(VersionUnsupported, match="does not serve ListGroups"),
    ):
        list_groups(broker)


def test_no_common_version_tells_both_ranges() -> None:
    ranges = {ApiKey.API_VERSIONS: (0, 4), ApiKey.LIST_GROUPS: (7, 9)}
    with (
        FakeBroker(ranges=ranges) as broker,
        pytest.raises(VersionUnsupported, match=r"serves ListGroups 7 to 9.*speaks 0 to 5"),
    ):
        list_groups(broker)


def test_an_error_in_the_negotiation_is_named() -> None:
    answer = ApiVersionsResponse(error_code=42, api_keys=[])
    with (
        FakeBroker({ApiKey.API_VERSIONS: answer}) as broker,
        pytest.raises(ConnectionLost, match="INVALID_REQUEST"),
    ):
        list_groups(broker)


def test_nobody_listening_is_unreachable() -> None:
    port = free_port()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}: connection refused"):
        Connection.open(Address("127.0.0.1", port), Deadline(5))


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid:9092"):
        Connection.open(Address("no-such-host.invalid", 9092), Deadline(5))


def test_a_silent_broker_times_out_in_time() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: SILENCE}) as broker:
        began = time.monotonic()
        with pytest.raises(BrokerTimedOut, match=r"ListGroupsRequest within 0\.2 s"):
            list_groups(broker, timeout_s=0.2)
        assert time.monotonic() - began < 2


def test_a_broker_that_sends_byte_by_byte_forever_times_out() -> None:
    """The time allowed is for the whole answer, not for each piece of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
        with pytest.raises(BrokerTimedOut), _dripping(server):
            Connection.open(address, Deadline(0.3))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "closed the connection at ListGroupsRequest: end of stream"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is no broker"),
        (struct.pack(">i", -5), "is no broker"),
        (struct.pack(">iI", 4, 99), "no ListGroupsResponse v5"),
        (struct.pack(">i", 2) + b"ab", "no ListGroupsResponse v5"),
        (ListGroupsResponse.framer(5)(NO_GROUPS, 77), "answered request 77"),
        (struct.pack(">i", len(WHOLE) - 5) + WHOLE[4:-1], "no ListGroupsResponse v5"),
    ],
    ids=["hang-up", "http", "negative", "cut", "tiny", "other-correlation", "malformed"],
)
def test_what_is_no_answer_is_told_apart(answer: bytes | None, why: str) -> None:
    reply: Callable[..., bytes | None] = lambda request, version: answer  # noqa: E731
    with (
        FakeBroker({ApiKey.LIST_GROUPS: reply}) as broker,
        pytest.raises(ConnectionLost, match=why),
    ):
        list_groups(broker)


def test_a_tls_listener_is_suspected_at_the_first_hang_up() -> None:
    with FakeBroker({ApiKey.API_VERSIONS: lambda request, version: None}) as broker:
        with pytest.raises(ConnectionLost) as caught:
            list_groups(broker)
        assert "TLS" in caught.value.remedy


def test_a_broken_connection_is_not_used_again() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: lambda request, version: None}) as broker:
        deadline = Deadline(5)
        connection = Connection.open(address_of(broker), deadline)
        with pytest.raises(ConnectionLost):
            connection.call(ListGroupsRequest(), ListGroupsResponse, deadline)
        assert connection.broken


class _dripping:  # noqa: N801 - used as a context manager
    """Accept one connection and send it a byte of an endless answer every 20 ms."""

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
