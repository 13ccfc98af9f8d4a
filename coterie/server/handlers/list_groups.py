"""ListGroups: the groups this broker coordinates."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: ListGroupsRequest, connection: "Connection"
) -> ListGroupsResponse | None:
    """Ask the coordinator; an answer that depends on records waits until they are stored."""
    answer: ListGroupsResponse | None = broker.groups.ask(
        broker.coordinator.list_groups, request, connection
    )
    return answer
