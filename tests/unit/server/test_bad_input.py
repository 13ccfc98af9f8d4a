"""Hostile and broken peers of a running broker: each meets a limit, and other clients are served.

After every test another client is served, and no request has failed by our mistake. docs/limits.md
lists the limits.

Rules: [administration/describe], [connections/input-limits],
[framing/frame-length].
"""

import os
import socket
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.server.handlers.describe_configs import MAX_REPETITIONS
from coterie.server.network import limits
from coterie.server.network.connection import Connection
from tests.unit.server.changed_now import delete
from tests.unit.server.produced import batch, fetch_request, produce_request
from tests.unit.server.running import RunningBroker, is_closed

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with RunningBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def unharmed(running: RunningBroker) -> Iterator[None]:
    # Start a new second for the limit of log lines.
    running.call(lambda: running.broker.connection_quotas.sweep(running.broker.now_ms()))
    running.log.lines.clear()
    yield
    running.assert_unharmed()
    running.wait_for(lambda: running.call(lambda: len(running.broker.connection_quotas)) == 0)
    assert running.call(lambda: running.broker.connection_quotas.buffered_bytes) == 0


def resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 104_857_601, 0, 9])
def test_impossible_length_is_refused_before_the_body(running: RunningBroker, length: int) -> None:
    with running.connect() as connection:
        connection.sendall(length.to_bytes(4, signed=True))
        assert is_closed(connection)
    (line,) = running.log.named("connection closed")
    assert line["error"] == "MalformedFrame"
    assert f"a frame of {length} bytes; a request has 10 to 104857600" in line["reason"]


def test_two_thousand_lengths_of_2_gib_allocate_nothing(running: RunningBroker) -> None:
    before = resident_mib()
    for _ in range(20):
        connections = [running.connect() for _ in range(100)]
        for connection in connections:
            connection.sendall(b"\x7f\xff\xff\xff")
        for connection in connections:
            assert is_closed(connection)
            connection.close()
    assert resident_mib() - before < 16
    assert len(running.close_errors()) <= 2000


@pytest.mark.parametrize("count", [1_000_000, 2**31 - 1])
@pytest.mark.parametrize("version", [3, 9])
def test_array_count_beyond_the_frame_is_refused(
    running: RunningBroker, version: int, count: int
) -> None:
    """The protocols of a JoinGroup, in the plain and the compact encoding."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    body = request.encode(version)
    if version < 6:
        real, claimed = (1).to_bytes(4) + b"\0\5range", count.to_bytes(4) + b"\0\5range"
    else:
        real, claimed = b"\x02\x06range", uvarint(count + 1) + b"\x06range"
    assert real in body
    header = b"\0\x0b" + version.to_bytes(2) + bytes(4) + b"\0\0" + (b"\0" if version >= 6 else b"")
    frame = header + body.replace(real, claimed)
    before = resident_mib()
    with running.connect() as connection:
        connection.sendall(len(frame).to_bytes(4) + frame)
        assert is_closed(connection)
    assert resident_mib() - before < 8
    (line,) = running.log.named("connection closed")
    assert line["error"] == "MalformedFrame"
    assert f"JoinGroup v{version}: JoinGroupRequest.protocols" in line["reason"]


def test_request_with_a_million_elements_is_refused(running: RunningBroker) -> None:
    """The frame contains them all, but a request may not have so many."""
    name = b"\0\0"
    protocols = (1_000_000).to_bytes(4) + (name + bytes(4)) * 1_000_000
    body = b"\0\1g" + bytes(8) + b"\0\0" + b"\0\1c" + protocols
    frame = b"\0\x0b\0\3" + bytes(4) + b"\0\0" + body
    with running.connect() as connection:
        connection.sendall(len(frame).to_bytes(4) + frame)
        assert is_closed(connection)
    (line,) = running.log.named("connection closed")
    assert "elements" in line["reason"]


def test_thousand_incomplete_requests_do_not_slow_down_others(running: RunningBroker) -> None:
    half = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(4)
    before = resident_mib()
    connections = [running.connect() for _ in range(1000)]
    try:
        for connection in connections:
            connection.sendall((100 * MIB).to_bytes(4) + b"\0\x0c\0\4" + half)
        running.wait_for(
            lambda: running.call(lambda: len(running.broker.connection_quotas)) == len(connections)
        )
        with running.client() as other:
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            waits_s = []
            for _ in range(201):
                began = time.monotonic()
                assert other.call(request, 4).error_code == 25
                waits_s.append(time.monotonic() - began)
        # The machine may stop for some of them; a search of all connections would delay each.
        assert median(waits_s) < 1.0
        # They claim 100 GiB together; not even what one of them claims is allocated.
        assert resident_mib() - before < 64
        later = int(running.call(running.broker.now_ms)) + limits.FRAME_DEADLINE_MS
        # Time passes for the sweep only, not for the broker.
        running.call(
            lambda: running.broker.connection_quotas.sweep(later - limits.FRAME_DEADLINE_MS)
        )
        running.call(lambda: running.broker.connection_quotas.sweep(later + 60_000))
        for connection in connections:
            assert is_closed(connection)
        assert set(running.close_errors()) == {"FrameTimeout"}
    finally:
        for connection in connections:
            connection.close()


def test_client_that_never_reads_is_muted_and_disconnected(running: RunningBroker) -> None:
    """It fetches megabytes again and again, and is served until 1 MiB of responses is unread."""
    with running.client() as producer:
        running.call(lambda: running.broker.controller.create("big", 1, {}))
        request = produce_request(batch(b"x" * 900_000), topic="big")
        for _ in range(4):
            assert producer.call(request, 9).responses[0].partition_responses[0].error_code == 0
    silent = running.client()
    silent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked = fetch_request((0, 0), topic="big", partition_max_bytes=10 * MIB)
    for _ in range(200):
        silent.send(asked, 12)
    connections: Any = running.broker.connection_quotas._connections

    def muted() -> list[Connection]:
        found: list[Connection] = running.call(
            lambda: [each for each in connections if each._writing_paused]
        )
        return found

    # The closed connection of the producer may still be among them, and the other one not yet.
    running.wait_for(lambda: bool(muted()))
    (connection,) = muted()
    # One response of 3.6 MB was being written when the limit was passed, and none after it.
    unread = running.call(connection.unsent_bytes)
    assert limits.UNREAD_HIGH_BYTES < unread < limits.UNREAD_HIGH_BYTES + 8 * MIB
    with running.client() as other:
        for _ in range(50):
            heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert other.call(heartbeat, 4).error_code == 25
    now = running.call(running.broker.now_ms)
    running.call(lambda: running.broker.connection_quotas.sweep(now))
    running.call(
        lambda: running.broker.connection_quotas.sweep(now + limits.UNREAD_DEADLINE_MS + 1)
    )
    running.wait_for(lambda: "UnreadAnswers" in running.close_errors())
    silent.socket.close()
    running.call(lambda: delete(running.broker, running.broker.topics.by_name["big"]))


def test_connections_above_the_limit_are_closed() -> None:
    with RunningBroker({"max.connections": "50"}) as small:
        connections = [small.connect() for _ in range(60)]
        small.wait_for(lambda: len(small.close_errors()) == 10)
        assert set(small.close_errors()) == {"ConnectionLimit"}
        for connection in connections:
            connection.close()
        small.wait_for(lambda: small.call(lambda: len(small.broker.connection_quotas)) == 0)
        small.assert_unharmed()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\0" * 100,
        b"\xff" * 100,
        bytes(range(255, -1, -1)),
    ],
    ids=["http", "tls", "zeros", "ones", "descending"],
)
def test_bytes_of_another_protocol_are_refused(running: RunningBroker, data: bytes) -> None:
    with running.connect() as connection:
        connection.sendall(data)
        assert is_closed(connection)
    assert running.close_errors() == ["MalformedFrame"]


def test_client_may_disconnect_at_any_time(running: RunningBroker) -> None:
    for size in (1, 3, 4, 13, 14, 20):
        with running.connect() as connection:
            connection.sendall(((50).to_bytes(4) + b"\0\x0c\0\4" + bytes(50))[:size])
    with running.client() as client:
        client.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            1,
        )


def test_repeated_names_are_answered_a_few_times(running: RunningBroker) -> None:
    """Three requests of some KiB that would otherwise need a response of gigabytes."""
    with running.client() as client:
        resource = DescribeConfigsRequestResource(
            resource_type=2, resource_name="__consumer_offsets", configuration_keys=None
        )
        configs = DescribeConfigsRequest(resources=[resource] * 10_000, include_synonyms=True)
        assert len(client.call(configs, 4).results) == MAX_REPETITIONS
        describe = DescribeGroupsRequest(groups=["g"] * 10_000)
        assert len(client.call(describe, 5).groups) == 1
        group = OffsetFetchRequestGroup(group_id="g", topics=None)
        assert len(client.call(OffsetFetchRequest(groups=[group] * 5_000), 8).groups) == 1


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
