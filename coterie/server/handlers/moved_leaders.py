"""Where clients find the leaders of partitions that this broker does not lead (KIP-951)."""

from collections.abc import Callable
from typing import TypeVar

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceResponse,
    ProduceResponseCurrentLeader,
    ProduceResponseNodeEndpoint,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_LEADERS_SINCE = 10

E = TypeVar("E")


def name_leaders(broker: Services, response: ProduceResponse, connection: Exchange) -> None:
    """Add the leaders of the partitions that this broker does not lead, and their addresses."""
    if connection.version < _LEADERS_SINCE:
        return
    image, leaders = broker.image, set()
    for topic in response.responses:
        found = broker.topics.by_id.get(topic.topic_id)
        name = topic.name if found is None else found.name
        for each in topic.partition_responses:
            where = image.placed(name, each.index)
            if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and where is not None:
                leaders.add(where.leader_id)
                each.current_leader = ProduceResponseCurrentLeader(
                    leader_id=where.leader_id, leader_epoch=where.leader_epoch
                )
    response.node_endpoints = endpoints_of(leaders, broker, connection, ProduceResponseNodeEndpoint)


def endpoints_of(
    leaders: set[int], broker: Services, connection: Exchange, endpoint: Callable[..., E]
) -> list[E]:
    """Return where a client finds each of these brokers.

    Args:
        leaders: the ids of the brokers.
        broker: this broker.
        connection: the client's connection; the addresses are those of its listener.
        endpoint: the structure of an address in the response.
    """
    return [
        endpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in broker.image.endpoints(connection.client.listener)
        if each.node_id in leaders
    ]
