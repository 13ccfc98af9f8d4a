"""What clients ask of streams groups."""

from collections.abc import Sequence

from coterie.coordinator.groups.recorded.describe import described
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.recorded.requests import HeartbeatRequests
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.streams.describe import (
    DescribedStreamsGroup,
)
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.heartbeat import heartbeat
from coterie.coordinator.groups.streams.validation import check_request
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.streams_topology.model import InternalTopic
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class StreamsGroupRequests:
    """The requests of streams groups."""

    def __init__(self, requests: HeartbeatRequests) -> None:
        """Let requests reach the partitions of a coordinator."""
        self._requests = requests

    def heartbeat(
        self, now_ms: int, request: StreamsGroupHeartbeatRequest, context: RequestContext
    ) -> Effects[StreamsGroupHeartbeatResponse]:
        """Handle a StreamsGroupHeartbeat [streams-groups/order-of-checks]."""
        again = self._requests.answered_again(now_ms, request, context)
        if again is not None:
            return again
        try:
            check_request(request)
        except Refusal as refusal:
            return Effects(heartbeat_error(request, refusal.error, text=refusal.text))
        return self._requests.run(heartbeat, ErrorCode.NONE, now_ms, request, context)

    def describe(
        self, now_ms: int, request: StreamsGroupDescribeRequest, context: RequestContext
    ) -> Effects[StreamsGroupDescribeResponse]:
        """Handle a StreamsGroupDescribe; groups without an id come first, as in Kafka."""
        return self._requests.look_at_each(
            described, DescribedStreamsGroup, StreamsGroupDescribeResponse, now_ms, request, context
        )

    def missing_topics(self, group_id: str) -> Sequence[InternalTopic]:
        """Return the internal topics that a group needs and that did not exist at its heartbeat."""
        group = self._requests.group(group_id)
        if not isinstance(group, StreamsGroup) or group.configured is None:
            return ()
        return group.configured.internal_topics_to_create
