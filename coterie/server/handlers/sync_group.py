"""SyncGroup: it is answered when the leader's assignment is stored."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: SyncGroupRequest, connection: "Connection"
) -> SyncGroupResponse | None:
    """Ask the coordinator; the connection waits for the answer."""
    answer: SyncGroupResponse | None = broker.groups.ask(
        broker.coordinator.sync_group, request, connection, parks=True
    )
    return answer
