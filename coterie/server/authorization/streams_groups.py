"""What requests of streams groups need [security/groups]."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.streams.topology import logged_topology
from coterie.coordinator.streams_topology.names import named_topics
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import Handled, Outcome, answered
from coterie.server.handlers.streams_groups import heartbeat, refused_names
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def streams_group_heartbeat(
    broker: Services,
    access: ClientAccess,
    request: StreamsGroupHeartbeatRequest,
    _connection: Exchange,
) -> Outcome:
    """Ask for READ, and for DESCRIBE on every topic that the topology names."""
    if not broker.features.serves_streams_groups:
        return None
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return answered(heartbeat_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused = refused_names(request)
    if refused is not None:
        return answered(refused)
    if request.topology is not None:
        for name in named_topics(logged_topology(request.topology)):
            if not access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                return answered(heartbeat_error(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return Handled(partial(_heartbeat, access))


def _heartbeat(
    access: ClientAccess,
    broker: Services,
    request: StreamsGroupHeartbeatRequest,
    connection: Exchange,
) -> Any:
    """Handle a heartbeat; its client needs CREATE on the cluster or on each internal topic."""

    def unauthorized(names: Sequence[str]) -> Sequence[str]:
        if access.may_quietly(AclOperation.CREATE, ResourceType.CLUSTER):
            return ()
        return [
            name for name in names if not access.may(AclOperation.CREATE, ResourceType.TOPIC, name)
        ]

    return heartbeat(broker, request, connection, unauthorized)
