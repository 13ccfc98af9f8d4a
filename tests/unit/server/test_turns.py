"""Requests share a turn of the event loop, and the budget of a turn is time [connections/turns].

Rules: [connections/turns].
"""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.server.broker import Broker
from coterie.server.network.routes import Overlay
from coterie.server.network.turns import TURN_S, Turns
from tests.unit.server.manual import Client, make_broker

VERSION = 4
REQUEST_S = TURN_S / 4


class SlowHandler:
    """A handler that computes for a quarter of a turn, by a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.handled: list[Any] = []

    def __call__(
        self, _broker: Any, request: HeartbeatRequest, connection: Any
    ) -> HeartbeatResponse:
        self.now_s += REQUEST_S
        self.handled.append(connection)
        return HeartbeatResponse(error_code=request.generation_id)


@pytest.fixture
def handler() -> SlowHandler:
    return SlowHandler()


@pytest.fixture
def broker(handler: SlowHandler) -> Broker:
    broker = make_broker()
    broker.turns = Turns(broker.environment)
    broker.turns._clock_s = lambda: handler.now_s
    broker.use_routes(Overlay(broker.routes, {ApiKey.HEARTBEAT: lambda _: handler}))
    return broker


def pipeline(client: Client, count: int) -> None:
    """Send so many requests in one read."""
    requests = (
        HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
        for number in range(count)
    )
    client.connection.data_received(b"".join(client.frame(each, VERSION) for each in requests))


def codes(client: Client) -> list[int]:
    return [message.error_code for _, message in client.answers()]


def test_expensive_requests_of_a_connection_wait_for_the_next_turn(
    broker: Broker, handler: SlowHandler
) -> None:
    client = Client(broker)
    pipeline(client, 30)
    # The clock is read after the first request and after each eighth one that follows.
    assert codes(client) == list(range(9))
    client.loop.turn()
    assert codes(client) == list(range(9, 30))
    assert len(handler.handled) == 30


def test_connections_share_the_budget_of_a_turn(broker: Broker, handler: SlowHandler) -> None:
    clients = [Client(broker) for _ in range(5)]
    for client in clients:
        pipeline(client, 20)
    # The first one spends it, and every other one still has one request handled.
    assert [len(codes(client)) for client in clients] == [9, 1, 1, 1, 1]
    clients[0].loop.turn_once()
    assert [len(codes(client)) for client in clients] == [1, 9, 1, 1, 1]
    clients[0].loop.turn()
    assert len(handler.handled) == 5 * 20


def test_single_request_is_handled_in_the_turn_in_which_it_arrives(
    broker: Broker, handler: SlowHandler
) -> None:
    busy, honest = Client(broker), Client(broker)
    pipeline(busy, 100)
    pipeline(honest, 1)
    assert codes(honest) == [0]
    assert len(codes(busy)) < 20


def test_requests_of_a_connection_stay_in_order(broker: Broker) -> None:
    clients = [Client(broker) for _ in range(3)]
    for client in clients:
        pipeline(client, 40)
    # More arrive while earlier ones wait.
    pipeline(clients[0], 3)
    clients[0].loop.turn()
    assert codes(clients[0]) == [*range(40), *range(3)]
    for client in clients[1:]:
        assert codes(client) == list(range(40))


def test_connection_that_is_lost_while_it_waits_is_left_out(
    broker: Broker, handler: SlowHandler
) -> None:
    client = Client(broker)
    pipeline(client, 30)
    client.connection.connection_lost(None)
    client.loop.turn()
    assert len(handler.handled) == 9
