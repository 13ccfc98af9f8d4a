"""What a hostile or broken peer can do to a running broker: it sees a limit, others see nothing.

Every test ends with somebody else being served, and no request of theirs having failed by a mistake
of ours. docs/limits.md lists the limits.
"""

import os
import socket
import time
from collections.abc import Iterator

import pytest

from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.server.network import limits
from tests.unit.server.produced import batch, fetch_request, produce_request
from tests.unit.server.running import RunningBroker, is_closed

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with RunningBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def unharmed(running: RunningBroker) -> Iterator[None]:
    # A new second, as far as the limit of log lines is concerned.
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
def test_an_impossible_length_is_refused_from_its_four_bytes(
    running: RunningBroker, length: int
) -> None:
    with running.connect() as connection:
        connection.sendall(length.to_bytes(4, signed=True))
        assert is_closed(connection)
    (line,) = running.log.named("connection closed")
    assert line["error"] == "MalformedFrame"
    assert f"a frame of {length} bytes; a request has 10 to 104857600" in line["reason"]


def test_two_thousand_lengths_of_2_gib_cost_nothing(running: RunningBroker) -> None:
    before = resident_mib()
    for _ in range(20):
        connections = [running.connect() for _ in range(100)]
        for connection in connections:
            connection.sendall(b"\x7f\xff\xff\xff")
        for connection in connections:
            assert is_closed(connection)
            connection.close()
    assert resident_mib() - before < 16
    assert len(running.closings()) <= 2000


@pytest.mark.parametrize("count", [1_000_000, 2**31 - 1])
@pytest.mark.parametrize("version", [3, 9])
def test_an_array_that_claims_a_million_elements_in_a_small_frame(
    running: RunningBroker, version: int, count: int
) -> None:
    """JoinGroup's protocols, in the old encoding and the compact one."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    body = request.encode(version)
    if version < 6:
        honest, claimed = (1).to_bytes(4) + b"\0\5range", count.to_bytes(4) + b"\0\5range"
    else:
        honest, claimed = b"\x02\x06range", uvarint(count + 1) + b"\x06range"
    assert honest in body
    header = b"\0\x0b" + version.to_bytes(2) + bytes(4) + b"\0\0" + (b"\0" if version >= 6 else b"")
    frame = header + body.replace(honest, claimed)
    before = resident_mib()
    with running.connect() as connection:
        connection.sendall(len(frame).to_bytes(4) + frame)
        assert is_closed(connection)
    assert resident_mib() - before < 8
    (line,) = running.log.named("connection closed")
    assert line["error"] == "MalformedFrame"
    assert f"JoinGroup v{version}: JoinGroupRequest.protocols" in line["reason"]


def test_a_million_real_elements_are_too_many(running: RunningBroker) -> None:
    """The frame holds them; their number is beyond what one request may have."""
    name = b"\0\0"
    protocols = (1_000_000).to_bytes(4) + (name + bytes(4)) * 1_000_000
    body = b"\0\1g" + bytes(8) + b"\0\0" + b"\0\1c" + protocols
    frame = b"\0\x0b\0\3" + bytes(4) + b"\0\0" + body
    started = time.monotonic()
    with running.connect() as connection:
        connection.sendall(len(frame).to_bytes(4) + frame)
        assert is_closed(connection)
    assert time.monotonic() - started < 5
    (line,) = running.log.named("connection closed")
    assert "elements" in line["reason"]


def test_a_thousand_half_open_connections(running: RunningBroker) -> None:
    """Each has begun a request and goes no further; an honest member's answers stay quick."""
    half = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(4)
    before = resident_mib()
    connections = [running.connect() for _ in range(1000)]
    try:
        for connection in connections:
            connection.sendall((100 * MIB).to_bytes(4) + b"\0\x0c\0\4" + half)
        running.wait_for(
            lambda: running.call(lambda: len(running.broker.connection_quotas)) == len(connections)
        )
        with running.client() as honest:
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            slowest = 0.0
            for _ in range(200):
                began = time.monotonic()
                assert honest.call(request, 4).error_code == 25
                slowest = max(slowest, time.monotonic() - began)
        assert slowest < 1.0
        # Not what they claim, 100 GiB, and not even what one of them claims.
        assert resident_mib() - before < 64
        later = int(running.call(running.broker.now_ms)) + limits.FRAME_DEADLINE_MS
        # Time passes for the sweep only.
        running.call(
            lambda: running.broker.connection_quotas.sweep(later - limits.FRAME_DEADLINE_MS)
        )
        running.call(lambda: running.broker.connection_quotas.sweep(later + 60_000))
        for connection in connections:
            assert is_closed(connection)
        assert set(running.closings()) == {"FrameTimeout"}
    finally:
        for connection in connections:
            connection.close()


def test_a_member_that_never_reads(running: RunningBroker) -> None:
    """It asks for megabytes again and again: it is served until 1 MiB waits, then closed."""
    with running.client() as producer:
        running.call(lambda: running.broker.topics.create("big", 1, {}))
        request = produce_request(batch(b"x" * 900_000), topic="big")
        for _ in range(4):
            assert producer.call(request, 9).responses[0].partition_responses[0].error_code == 0
    greedy = running.client()
    greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked = fetch_request((0, 0), topic="big", partition_max_bytes=10 * MIB)
    for _ in range(200):
        greedy.send(asked, 12)
    (connection,) = running.call(lambda: list(running.broker.connection_quotas._connections))
    running.wait_for(lambda: connection._writing_paused)
    # One answer of 3.6 MB was under way when its peer fell behind; no further one was made.
    unread = running.call(connection.unsent_bytes)
    assert limits.UNREAD_HIGH_BYTES < unread < limits.UNREAD_HIGH_BYTES + 8 * MIB
    with running.client() as honest:
        for _ in range(50):
            heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert honest.call(heartbeat, 4).error_code == 25
    now = running.call(running.broker.now_ms)
    running.call(lambda: running.broker.connection_quotas.sweep(now))
    running.call(
        lambda: running.broker.connection_quotas.sweep(now + limits.UNREAD_DEADLINE_MS + 1)
    )
    running.wait_for(lambda: "UnreadAnswers" in running.closings())
    greedy.socket.close()
    running.call(lambda: running.broker.topics.delete(running.broker.topics.by_name["big"]))


def test_connections_beyond_the_limit_are_closed_and_the_others_are_served() -> None:
    with RunningBroker({"max.connections": "50"}) as small:
        connections = [small.connect() for _ in range(60)]
        small.wait_for(lambda: len(small.closings()) == 10)
        assert set(small.closings()) == {"ConnectionLimit"}
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
def test_other_protocols(running: RunningBroker, data: bytes) -> None:
    with running.connect() as connection:
        connection.sendall(data)
        assert is_closed(connection)
    assert running.closings() == ["MalformedFrame"]


def test_a_peer_that_goes_in_the_middle_of_everything(running: RunningBroker) -> None:
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


def test_naming_one_thing_many_times_does_not_multiply_the_answer(running: RunningBroker) -> None:
    """A frame of some KiB that would be answered with gigabytes, three ways."""
    with running.client() as client:
        resource = DescribeConfigsRequestResource(
            resource_type=2, resource_name="__consumer_offsets", configuration_keys=None
        )
        configs = DescribeConfigsRequest(resources=[resource] * 10_000, include_synonyms=True)
        assert len(client.call(configs, 4).results) == 1
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
