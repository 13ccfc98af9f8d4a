"""Heartbeat: the request there is most of. It is answered at once, and has no other effects."""

from typing import TYPE_CHECKING

from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: HeartbeatRequest, connection: "Connection"
) -> HeartbeatResponse:
    """Ask the coordinator, without the detour for answers that may have to wait."""
    answer: HeartbeatResponse = broker.coordinator.heartbeat(connection.now_ms, request).answer
    return answer
