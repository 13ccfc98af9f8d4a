"""Connection quotas: admission, and the deadlines that the sweep enforces.

Rules: [connections/client-host], [connections/input-limits], [quotas/no-number].
"""

import pytest

from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.server.config.config import Config
from coterie.server.config.sources import ConfigError
from coterie.server.network import limits
from coterie.server.network.connection_quotas import java_address
from tests.unit.server.manual import Client, logged, loop_of, make_broker

SWEEP = limits.SWEEP_INTERVAL_MS


def close_errors(client: Client) -> list[str]:
    return [line["error"] for line in logged(client.broker, "connection closed")]


def half_a_request(client: Client) -> bytes:
    request = HeartbeatRequest(group_id="g" * 1000, generation_id=1, member_id="m")
    return client.frame(request, 4)[:500]


def test_connection_above_the_limit_is_refused_until_another_is_lost() -> None:
    broker = make_broker({"max.connections": "2"})
    first, second, third = (Client(broker) for _ in range(3))
    assert (first.transport.closed, second.transport.closed) == (False, False)
    assert third.transport.aborted
    (line,) = logged(broker, "connection closed")
    assert line["error"] == "ConnectionLimit"
    assert line["reason"] == "2 connections are open (max.connections)"
    third.connection.connection_lost(None)
    first.connection.connection_lost(None)
    assert len(broker.connection_quotas) == 1
    assert not Client(broker).transport.closed


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    """[connections/connection-limits]"""
    broker = make_broker({"listener.name.outside.max.connections": "1", "max.connections": "3"})
    outside = Client(broker, listener="OUTSIDE")
    refused = Client(broker, listener="OUTSIDE")
    assert refused.transport.aborted
    (line,) = logged(broker, "connection closed")
    assert line["reason"] == (
        "1 connections of listener OUTSIDE are open (listener.name.outside.max.connections)"
    )
    refused.connection.connection_lost(None)
    assert [Client(broker).transport.aborted for _ in range(3)] == [False, False, True]
    outside.connection.connection_lost(None)
    assert not Client(broker, listener="OUTSIDE").transport.aborted


def test_connections_of_one_address_are_limited() -> None:
    broker = make_broker({"max.connections.per.ip": "1"})
    Client(broker, host="10.0.0.1")
    assert Client(broker, host="10.0.0.1").transport.aborted
    assert not Client(broker, host="10.0.0.2").transport.closed


def test_some_addresses_have_limits_of_their_own() -> None:
    """[connections/connection-limits]"""
    given = "10.0.0.1:0, localhost:2,::1:1"
    broker = make_broker({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": given})
    refused = [
        Client(broker, host=host).transport.aborted
        for host in ("10.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "::1", "::1", "::2", "::2")
    ]
    assert refused == [True, False, False, True, False, True, False, True]


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:x", "host.example:1", ":1"])
def test_limits_of_addresses_that_cannot_be_read_end_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        Config.load([f"max.connections.per.ip.overrides={text}"])


def test_connections_above_the_rate_are_served_later() -> None:
    """[quotas/connection-rate]"""
    broker = make_broker({"max.connection.creation.rate": "10"})
    clients = [Client(broker) for _ in range(103)]
    for client in clients:
        client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    loop = loop_of(broker)
    loop.turn()
    assert [len(client.answers()) for client in clients] == [1] * 100 + [0] * 3
    loop.advance(101)
    assert [len(client.answers()) for client in clients[100:]] == [1, 0, 0]
    loop.advance(1_000)
    assert [len(client.answers()) for client in clients[100:]] == [0, 1, 1]


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    """[quotas/connection-rate]"""
    broker = make_broker({"listener.name.outside.max.connection.creation.rate": "10"})
    clients = [Client(broker, listener="OUTSIDE") for _ in range(102)]
    others = [Client(broker) for _ in range(102)]
    for client in (*clients, *others):
        client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    loop_of(broker).turn()
    assert sum(len(client.answers()) for client in clients) == 100
    assert sum(len(client.answers()) for client in others) == 102


def test_idle_connection_is_closed_without_a_log_line() -> None:
    broker = make_broker({"connections.max.idle.ms": "5000"})
    idle, busy = Client(broker), Client(broker)
    for _ in range(6):
        loop_of(broker).advance(1000)
        busy.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert idle.transport.closed
    assert not busy.transport.closed
    assert close_errors(idle) == []


def test_incomplete_request_closes_its_connection() -> None:
    client = Client(make_broker())
    client.connection.data_received(half_a_request(client))
    client.loop.advance(limits.FRAME_DEADLINE_MS - SWEEP)
    assert not client.transport.closed
    client.loop.advance(3 * SWEEP)
    assert client.transport.closed
    assert close_errors(client) == ["FrameTimeout"]
    assert client.broker.connection_quotas.buffered_bytes == 0


def test_single_bytes_do_not_extend_the_deadline() -> None:
    client = Client(make_broker())
    data = half_a_request(client)
    for position in range(limits.FRAME_DEADLINE_MS // 1000 + 3):
        client.connection.data_received(data[position : position + 1])
        client.loop.advance(1000)
    assert close_errors(client) == ["FrameTimeout"]


def test_large_request_on_a_slow_link_has_more_time() -> None:
    client = Client(make_broker())
    size = 60 * limits.SLOWEST_LINK_BYTES_PER_MS * 1000
    client.connection.data_received(size.to_bytes(4))
    for _ in range(30):
        client.connection.data_received(bytes(2 * limits.SLOWEST_LINK_BYTES_PER_MS * 1000))
        client.loop.advance(2000)
        if client.transport.closed:
            break
    # It arrives faster than the slowest link allows, and completely; its content is malformed.
    assert close_errors(client) == ["MalformedFrame"]


def test_each_request_has_its_own_deadline() -> None:
    """A client that pipelines always has a partial request in the buffer, without being slow."""
    client = Client(make_broker())
    frame = client.frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    half = len(frame) // 2
    client.connection.data_received(frame[:half])
    for _ in range(limits.FRAME_DEADLINE_MS // 500):
        client.loop.advance(500)
        client.connection.data_received(frame[half:] + frame[:half])
    assert not client.transport.closed


def test_closing_connection_is_aborted_if_the_peer_does_not_read() -> None:
    client = Client(make_broker())
    client.connection.close_quietly()
    assert not client.transport.aborted
    client.loop.advance(limits.CLOSING_DEADLINE_MS + 3 * SWEEP)
    assert client.transport.aborted


def test_buffered_bytes_of_all_connections_are_limited() -> None:
    broker = make_broker()
    clients = [Client(broker) for _ in range(6)]
    for client in clients:
        client.connection.data_received((100 * 1024 * 1024).to_bytes(4))
        client.connection.data_received(bytes(95 * 1024 * 1024))
    assert [client.transport.closed for client in clients] == [False] * 5 + [True]
    assert close_errors(clients[5]) == ["BufferLimit"]
    assert broker.connection_quotas.buffered_bytes < limits.TOTAL_BUFFERED_BYTES
    for client in clients:
        client.connection.connection_lost(None)
    assert broker.connection_quotas.buffered_bytes == 0


def test_no_timer_runs_without_connections() -> None:
    broker = make_broker()
    loop = loop_of(broker)
    before = loop.timers
    client = Client(broker)
    assert loop.timers == before + 1
    client.connection.connection_lost(None)
    loop.advance(2 * SWEEP)
    assert loop.timers == before


def test_addresses_are_printed_as_java_prints_them() -> None:
    assert java_address("127.0.0.1") == "/127.0.0.1"
    assert java_address("::1") == "/0:0:0:0:0:0:0:1"
    assert java_address("fe80::1%eth0") == "/fe80:0:0:0:0:0:0:1"


def test_a_fetch_gets_less_while_clients_leave_much_unread() -> None:
    """[connections/input-limits]"""
    broker = make_broker()
    usual = broker.most_fetched_bytes()
    one, other = (Client(broker) for _ in range(2))
    for client in (one, other):
        client.transport.peer_reads = False
        client.transport.queued_bytes = limits.TOTAL_UNREAD_BYTES // 2
        assert broker.most_fetched_bytes() == usual
        client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert broker.most_fetched_bytes() == limits.UNREAD_HIGH_BYTES < usual
    one.transport.read_by_peer()
    assert broker.most_fetched_bytes() == usual
    other.connection.connection_lost(None)
    assert broker.connection_quotas.unread_bytes == 0
