"""DescribeGroups: state and members of groups."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: DescribeGroupsRequest, connection: "Connection"
) -> DescribeGroupsResponse | None:
    """Ask the coordinator, once for each group."""
    # Kafka describes a group as often as it is named; a group of a thousand members, named a
    # thousand times in a small request, would be an answer of a gigabyte.
    request.groups = list(dict.fromkeys(request.groups))
    answer: DescribeGroupsResponse | None = broker.groups.ask(
        broker.coordinator.describe_groups, request, connection
    )
    return answer
