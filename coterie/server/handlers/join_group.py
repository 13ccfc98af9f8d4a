"""JoinGroup: it is answered when the join phase ends."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: JoinGroupRequest, connection: "Connection"
) -> JoinGroupResponse | None:
    """Ask the coordinator; the connection waits for the answer."""
    answer: JoinGroupResponse | None = broker.groups.ask(
        broker.coordinator.join_group, request, connection, parks=True
    )
    return answer
