"""LeaveGroup: members go, and their group rebalances."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: LeaveGroupRequest, connection: "Connection"
) -> LeaveGroupResponse | None:
    """Ask the coordinator; an answer that depends on records waits until they are stored."""
    answer: LeaveGroupResponse | None = broker.groups.ask(
        broker.coordinator.leave_group, request, connection
    )
    return answer
