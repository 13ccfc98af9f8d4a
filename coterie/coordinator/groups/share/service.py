"""What clients ask of share groups, and what the share coordinator answers."""

from typing import Any

from coterie.coordinator.groups.recorded.describe import described
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.recorded.requests import HeartbeatRequests
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.describe import DescribedShareGroup
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.heartbeat import heartbeat
from coterie.coordinator.groups.share.offsets import alter_offsets, delete_offsets
from coterie.coordinator.groups.share.state_answers import state_answered
from coterie.coordinator.groups.share.state_partitions import Topics
from coterie.coordinator.groups.share.state_request import OffsetsResponse, StateRequest
from coterie.coordinator.groups.share.validation import check_shape
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard import send_response
from coterie.coordinator.kernel.shard_state import ACTIVE, availability_error
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from coterie.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareGroupRequests(HeartbeatRequests):
    """The requests of share groups."""

    def share_group_heartbeat(
        self, now_ms: int, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> Effects[ShareGroupHeartbeatResponse]:
        """Handle a ShareGroupHeartbeat [share-groups/order-of-checks]."""
        again = self.answered_again(now_ms, request, context)
        if again is not None:
            return again
        try:
            check_shape(request)
        except Refusal as refusal:
            return Effects(heartbeat_error(request, refusal.error, text=refusal.text))
        return self.run(heartbeat, ErrorCode.NONE, now_ms, request, context)

    def state_answered(self, request: StateRequest, answer: Any, now_ms: int) -> Effects[Any]:
        """Handle what the share coordinator has answered [share-groups/initialization].

        Nothing happens if the group was deleted, or its partition given up, meanwhile.

        Args:
            request: what `Effects.requests` has had.
            answer: the response to its message, with a result for each partition.
            now_ms: the time.
        """
        group_id = request.group.group_id
        shard = self._shard(group_id)
        if shard.state is not ACTIVE or shard.groups.get(group_id) is not request.group:
            return Effects()
        effects = state_answered(shard, request, answer, now_ms)
        done = shard.settle(effects, now_ms, request.asked, request.to)
        if done.response is not None:
            send_response(request.to, done.response, done)
            done.response = None
        return self.applied(done)

    def alter_share_group_offsets(
        self, now_ms: int, request: AlterShareGroupOffsetsRequest, context: RequestContext
    ) -> Effects[OffsetsResponse]:
        """Handle an AlterShareGroupOffsets [share-groups/alter-offsets]."""
        return self.run(alter_offsets, _id_error(request), now_ms, request, context)

    def delete_share_group_offsets(
        self, now_ms: int, request: DeleteShareGroupOffsetsRequest, context: RequestContext
    ) -> Effects[OffsetsResponse]:
        """Handle a DeleteShareGroupOffsets [share-groups/delete-offsets]."""
        return self.run(delete_offsets, _id_error(request), now_ms, request, context)

    def share_partitions(self, group_id: str) -> ErrorCode | Topics:
        """Return the partitions of a group that have delivery state, by topic id.

        Returns:
            The error, if the partition of the group is not available; nothing for a group that does
            not exist or is of another type.
        """
        shard = self._shard(group_id)
        error = availability_error(shard.state)
        if error:
            return error
        group = shard.groups.get(group_id)
        return group.state_partitions.initialized if isinstance(group, ShareGroup) else {}

    def share_group_describe(
        self, now_ms: int, request: ShareGroupDescribeRequest, context: RequestContext
    ) -> Effects[ShareGroupDescribeResponse]:
        """Handle a ShareGroupDescribe; groups without an id come first, as in Kafka."""
        return self.look_at_each(
            described, DescribedShareGroup, ShareGroupDescribeResponse, now_ms, request, context
        )


def _id_error(request: Any) -> ErrorCode:
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
