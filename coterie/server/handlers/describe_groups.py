"""DescribeGroups: state and members of groups."""

from typing import TYPE_CHECKING

from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.connection import Connection


def handle(
    broker: "Broker", request: DescribeGroupsRequest, connection: "Connection"
) -> DescribeGroupsResponse | None:
    """Ask the coordinator; an answer that depends on records waits until they are stored."""
    answer: DescribeGroupsResponse | None = broker.groups.ask(
        broker.coordinator.describe_groups, request, connection
    )
    return answer
