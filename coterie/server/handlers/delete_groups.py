"""DeleteGroups: empty groups go, with their offsets."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: DeleteGroupsRequest, connection: "Connection"
) -> DeleteGroupsResponse | None:
    """Ask the coordinator; an answer that depends on records waits until they are stored."""
    answer: DeleteGroupsResponse | None = broker.groups.ask(
        broker.coordinator.delete_groups, request, connection
    )
    return answer
