"""StreamsGroupHeartbeat and StreamsGroupDescribe, which the group coordinator answers."""

from collections.abc import Callable, Sequence
from typing import Any

from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.streams.topology import logged_topology
from coterie.coordinator.streams_topology.model import InvalidTopology
from coterie.coordinator.streams_topology.names import check_topic_names
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.protocol.wire import Message
from coterie.server.handlers.many_groups import described_by_id
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS, invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def everything_allowed(_names: Sequence[str]) -> Sequence[str]:
    """Return which topics a client may not create: without an authorizer none."""
    return ()


def refused_names(request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse | None:
    """Return the answer to a topology that names topics which no application may have, or None."""
    if request.topology is not None:
        try:
            check_topic_names(
                logged_topology(request.topology),
                internal_topics=INTERNAL_TOPICS,
                why_illegal=invalid_name,
            )
        except InvalidTopology as error:
            code = ErrorCode.STREAMS_INVALID_TOPOLOGY
            answer: StreamsGroupHeartbeatResponse = heartbeat_error(
                request, code, text=error.message
            )
            return answer
    return None


def heartbeat(
    broker: Services,
    request: StreamsGroupHeartbeatRequest,
    connection: Exchange,
    unauthorized: Callable[[Sequence[str]], Sequence[str]] = everything_allowed,
) -> StreamsGroupHeartbeatResponse | None:
    """Join a streams group, keep in it, or leave it.

    Args:
        broker: the broker.
        request: the heartbeat.
        connection: its connection.
        unauthorized: returns which topics of some the client may not create.
    """
    if not broker.features.serves_streams_groups:
        not_served: StreamsGroupHeartbeatResponse = heartbeat_error(
            request, ErrorCode.UNSUPPORTED_VERSION
        )
        return not_served
    answer: StreamsGroupHeartbeatResponse | None = broker.coordinator.unchanged_heartbeat(
        connection.now_ms, request, connection.client
    )
    if answer is not None:
        return answer
    refused = refused_names(request)
    if refused is not None:
        return refused

    def complete(response: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        if response.status:
            topics = broker.coordinator.missing_topics(request.group_id)
            denied = unauthorized([each.name for each in topics]) if topics else ()
            broker.internal_topics.complete(response, topics, denied)
        return response

    verb = broker.coordinator.streams_group_heartbeat
    return broker.groups.submit(verb, request, connection, complete=complete)


def describe(
    broker: Services, request: StreamsGroupDescribeRequest, connection: Exchange
) -> StreamsGroupDescribeResponse | None:
    """Describe streams groups, each once [administration/describe]."""
    return described_by_id(
        broker,
        connection,
        request,
        broker.coordinator.streams_group_describe,
        StreamsGroupDescribeResponse,
        is_served=broker.features.serves_streams_groups,
    )


HANDLERS: dict[ApiKey, Callable[[Any, Any, Any], Message | None]] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describe,
}
