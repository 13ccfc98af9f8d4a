"""The group coordinator as a whole: one method per request, in front of the shards.

A method checks what needs no group (ids, bounds, whether the partition is available), finds the
shard of the group [coordinator/partition], lets the verb do its work and applies the timers. The
coordinator is pure: the time is an argument, UUIDs come from a function, and everything to write or
send is returned.

A method takes `now_ms` (epoch milliseconds of a clock that never goes back), the decoded request
and its `RequestContext`. It returns `Effects`; their `response` is None if the response comes later
as a `Reply`.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any

from coterie.coordinator.groups.admin import delete_group, describe_group, list_groups
from coterie.coordinator.groups.classic.heartbeat import RESPONSES as HEARTBEAT_RESPONSES
from coterie.coordinator.groups.classic.heartbeat import heartbeat
from coterie.coordinator.groups.classic.join import join
from coterie.coordinator.groups.classic.leave import leave
from coterie.coordinator.groups.classic.rebalance import rebalance_on_request
from coterie.coordinator.groups.classic.sync import sync
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.consumer.describe import (
    DescribedConsumerGroup,
    SeenConsumerGroups,
    describe_consumer_group,
)
from coterie.coordinator.groups.consumer.following import follow
from coterie.coordinator.groups.consumer.heartbeat import heartbeat as consumer_heartbeat
from coterie.coordinator.groups.consumer.upgrade import conversion_steps
from coterie.coordinator.groups.consumer.validation import check_shape
from coterie.coordinator.groups.group_type import GroupTypes
from coterie.coordinator.groups.offsets import commit, delete_offsets, fetch, fetch_group
from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.groups.recorded.describe import described
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.responses import DeletedGroup, DescribedGroup
from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.coordinator.groups.shard import GroupShard
from coterie.coordinator.groups.share.service import ShareGroupRequests
from coterie.coordinator.groups.streams.service import StreamsGroupRequests
from coterie.coordinator.groups.transactional_offsets import commit_transactional
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.response_parts import MultiGroupResponse
from coterie.coordinator.kernel.shard_state import ACTIVE, ShardState, availability_error
from coterie.coordinator.streams_topology.model import InternalTopic
from coterie.coordinator.topic_image import TopicChange, TopicImage, TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

# From this version on SyncGroup names the protocol [syncing/order-of-checks].
_SYNC_NAMES_PROTOCOL_SINCE = 5
# From this version on OffsetFetch lists groups [offsets/fetch].
_FETCH_MANY_GROUPS_SINCE = 8

# Read for every request: a global is read faster than a member of an enumeration.
_NONE = ErrorCode.NONE


class GroupCoordinator(ShareGroupRequests):
    """All partitions of `__consumer_offsets` that this broker coordinates, and their requests."""

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        start_ms: int = 0,
        topics: TopicsImage | None = None,
        types: GroupTypes = SERVED_TYPES,
    ) -> None:
        """Start without a loaded partition; see `GroupPartitions`."""
        super().__init__(config, types, new_uuid, start_ms, topics)
        self._streams = StreamsGroupRequests(self)

    # -- membership --------------------------------------------------------------------------------

    def join_group(
        self, now_ms: int, request: JoinGroupRequest, context: RequestContext
    ) -> Effects[JoinGroupResponse]:
        """Handle a JoinGroup [joining/order-of-checks]."""
        timeout_ms = request.session_timeout_ms
        config = self.config
        error = _NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not (
            config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        return self.run(join, error, now_ms, request, context)

    def sync_group(
        self, now_ms: int, request: SyncGroupRequest, context: RequestContext
    ) -> Effects[SyncGroupResponse]:
        """Handle a SyncGroup [syncing/order-of-checks]."""
        error = _NONE
        if context.version >= _SYNC_NAMES_PROTOCOL_SINCE and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        return self.run(sync, error, now_ms, request, context)

    def heartbeat(self, now_ms: int, request: HeartbeatRequest) -> Effects[HeartbeatResponse]:
        """Handle a Heartbeat; the response is the only effect [sessions/heartbeat]."""
        group_id = request.group_id
        if not group_id:
            return HEARTBEAT_RESPONSES[ErrorCode.INVALID_GROUP_ID]
        # As in `_shard`, without the call.
        shard = self._shard_of.get(group_id) or self._remember_shard(group_id)
        if shard.state is ACTIVE:
            effects = heartbeat(shard, now_ms, request)
            # Only a group of another type arms a timer then.
            return self.applied(effects) if effects.moves_deadline else effects
        if shard.state is ShardState.LOADING:
            # An error would make the members rejoin [sessions/heartbeat-while-loading].
            return HEARTBEAT_RESPONSES[ErrorCode.NONE]
        return HEARTBEAT_RESPONSES[ErrorCode.NOT_COORDINATOR]

    def leave_group(
        self, now_ms: int, request: LeaveGroupRequest, context: RequestContext
    ) -> Effects[LeaveGroupResponse]:
        """Handle a LeaveGroup [sessions/leave]."""
        error = _NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
        return self.run(leave, error, now_ms, request, context)

    def consumer_group_heartbeat(
        self, now_ms: int, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> Effects[ConsumerGroupHeartbeatResponse]:
        """Handle a ConsumerGroupHeartbeat [consumer-groups/order-of-checks]."""
        # Nearly all heartbeats are of these two kinds, whose fields need no check.
        again = self.answered_again(now_ms, request, context)
        if again is not None:
            return again
        shard = self._shard(request.group_id)
        if shard.state is ACTIVE:
            effects = follow(shard, now_ms, request, context.client)
            if effects is not None:
                return shard.settle(effects, now_ms, request, context.to, context.version)
        try:
            check_shape(request, context.version, self.config.consumer.assignors)
        except Refusal as refusal:
            return Effects(heartbeat_error(request, refusal.error, text=refusal.text))
        return self.run(consumer_heartbeat, _NONE, now_ms, request, context)

    def conversion_steps(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> Generator[None, None, None] | None:
        """Return steps to be done before a heartbeat that upgrades a large group; else None."""
        shard = self._shard(request.group_id)
        return conversion_steps(shard, request) if shard.state is ACTIVE else None

    def resolution(self, group_id: str) -> Any:
        """Return the matching of regular expressions of a group; None if none is under way."""
        shard = self._shard_of.get(group_id)
        group = None if shard is None else shard.groups.get(group_id)
        return getattr(group, "resolution", None)

    def begin_rebalance(self, group_id: str, reason: str, now_ms: int) -> Effects[Any]:
        """Begin a rebalance that no member has caused; no effects if the group cannot."""
        return self.operate(
            group_id,
            lambda shard, now_ms: rebalance_on_request(shard, group_id, reason, now_ms),
            now_ms,
        )

    def streams_group_heartbeat(
        self, now_ms: int, request: StreamsGroupHeartbeatRequest, context: RequestContext
    ) -> Effects[StreamsGroupHeartbeatResponse]:
        """Handle a StreamsGroupHeartbeat [streams-groups/order-of-checks]."""
        return self._streams.heartbeat(now_ms, request, context)

    def streams_group_describe(
        self, now_ms: int, request: StreamsGroupDescribeRequest, context: RequestContext
    ) -> Effects[StreamsGroupDescribeResponse]:
        """Handle a StreamsGroupDescribe; groups without an id come first, as in Kafka."""
        return self._streams.describe(now_ms, request, context)

    def missing_topics(self, group_id: str) -> Sequence[InternalTopic]:
        """Return the internal topics that a streams group needs and that do not exist."""
        return self._streams.missing_topics(group_id)

    # -- offsets -----------------------------------------------------------------------------------

    def offset_commit(
        self, now_ms: int, request: OffsetCommitRequest, context: RequestContext
    ) -> Effects[OffsetCommitResponse]:
        """Handle an OffsetCommit of partitions that exist; it has no timers."""
        shard = self._shard(request.group_id)
        error = availability_error(shard.state)
        if error:
            return Effects(shard.error_response(request, error, context.version))
        effects = commit(shard, now_ms, request, context.version)
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def txn_offset_commit(
        self,
        now_ms: int,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        logged_epoch: int = -1,
    ) -> Effects[TxnOffsetCommitResponse]:
        """Handle a TxnOffsetCommit of partitions that exist, whose transaction was checked.

        Args:
            now_ms: the time.
            request: the request.
            context: where it comes from.
            logged_epoch: the producer's epoch in the log of the group's partition; -1 for none.
        """

        def verb(
            shard: GroupShard,
            now_ms: int,
            request: TxnOffsetCommitRequest,
            context: RequestContext,
        ) -> Effects[TxnOffsetCommitResponse]:
            return commit_transactional(shard, now_ms, request, context.version, logged_epoch)

        error = _NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
        return self.run(verb, error, now_ms, request, context)

    def end_transaction(
        self, partition: int, end: TransactionEnd, to: Hashable, now_ms: int
    ) -> Effects[ErrorCode]:
        """Write the marker of a transaction [offsets/marker].

        Args:
            partition: the partition.
            end: the marker.
            to: receives NONE when the marker is durable, or the error if it is lost.
            now_ms: the time.
        """
        assert partition >= 0, "a negative number would name another partition"
        shard = self.shards[partition]
        error = availability_error(shard.state)
        return Effects(error) if error else shard.end_transaction(end, to, now_ms)

    def offset_fetch(
        self, now_ms: int, request: OffsetFetchRequest, context: RequestContext
    ) -> Effects[OffsetFetchResponse]:
        """Handle an OffsetFetch of one group or of several."""
        many, stable = context.version >= _FETCH_MANY_GROUPS_SINCE, request.require_stable
        if many and len(request.groups) != 1:
            parts: list[Any] = [None] * len(request.groups)
            return self.run_for_each(
                lambda shard, group, _: Effects(fetch_group(shard, group, stable=stable)),
                MultiGroupResponse(context.to, OffsetFetchResponse(groups=parts), parts),
                request.groups,
                now_ms,
                context.version,
            )
        shard = self._shard(request.groups[0].group_id if many else request.group_id)
        error = availability_error(shard.state)
        if error:
            return Effects(shard.error_response(request, error, context.version))
        if many:
            group = fetch_group(shard, request.groups[0], stable=stable)
            response = OffsetFetchResponse(groups=[group])
        else:
            topics = fetch(shard, request.group_id, request.topics, stable=stable)
            response = OffsetFetchResponse(topics=topics)
        return shard.settle(Effects(response), now_ms, request, context.to, context.version)

    def offset_count(self, group_id: str) -> int:
        """Return how many partitions a group has committed offsets of."""
        topics = self._shard(group_id).logged.offsets.get(group_id)
        return 0 if topics is None else sum(map(len, topics.values()))

    def offset_delete(
        self, now_ms: int, request: OffsetDeleteRequest, context: RequestContext
    ) -> Effects[OffsetDeleteResponse]:
        """Handle an OffsetDelete of partitions that exist [offsets/delete]."""
        error = _NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
        return self.run(delete_offsets, error, now_ms, request, context)

    def topics_changed(self, changes: Iterable[TopicChange], now_ms: int) -> Effects[Any]:
        """Delete the committed offsets of deleted topics in every group [offsets/topic-deletion].

        Other changes of topics do not concern classic groups.
        """
        effects: Effects[Any] = Effects()
        deleted = [before for before, now in changes if before is not None and now is None]
        for shard in self.shards:
            for part in self.delete_topic_offsets(shard.partition, deleted, now_ms):
                effects.absorb(part)
        return effects

    def delete_topic_offsets(
        self, partition: int, topics: Iterable[TopicImage], now_ms: int
    ) -> Iterator[Effects[Any]]:
        """Yield the operations that delete the offsets of deleted topics in one partition.

        Each is short. Requests may be handled between two of them; if the partition is given up,
        there are no more.
        """
        shard = self.shards[partition]
        for topic in topics:
            if shard.state is not ACTIVE:
                return
            for effects in shard.delete_topic_offsets(topic.name, topic.topic_id, now_ms):
                yield self.applied(effects)

    # -- administration ----------------------------------------------------------------------------

    def list_groups(
        self, _now_ms: int, request: ListGroupsRequest, context: RequestContext
    ) -> Effects[ListGroupsResponse]:
        """Handle a ListGroups."""
        error, shards = self.listable_shards()
        if error:
            return Effects(self.types.error_response(request, error, context.version))
        groups = [
            group for shard in shards for part in list_groups(shard, request) for group in part
        ]
        return Effects(ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))

    def listable_shards(self) -> tuple[ErrorCode, list[GroupShard]]:
        """Return the partitions that ListGroups covers, or the error that it gets.

        [administration/list]
        """
        shards = []
        for shard in self.shards:
            error = availability_error(shard.state)
            if error is ErrorCode.NOT_COORDINATOR:
                continue
            if error:
                return error, []
            shards.append(shard)
        return ErrorCode.NONE, shards

    def describe_groups(
        self, now_ms: int, request: DescribeGroupsRequest, context: RequestContext
    ) -> Effects[DescribeGroupsResponse]:
        """Handle a DescribeGroups; the groups stay in the order of the request."""
        parts: list[Any] = [None] * len(request.groups)
        return self.run_for_each(
            lambda shard, group, _: Effects(
                describe_group(
                    shard,
                    group.group_id,
                    context.version,
                    with_operations=request.include_authorized_operations,
                )
            ),
            MultiGroupResponse(context.to, DescribeGroupsResponse(groups=parts), parts),
            [DescribedGroup(group_id) for group_id in request.groups],
            now_ms,
            context.version,
        )

    def consumer_group_describe(
        self, now_ms: int, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> Effects[ConsumerGroupDescribeResponse]:
        """Handle a ConsumerGroupDescribe; groups without an id come first, as in Kafka."""
        return self.look_at_each(
            describe_consumer_group,
            DescribedConsumerGroup,
            ConsumerGroupDescribeResponse,
            now_ms,
            request,
            context,
        )

    def see_consumer_groups(
        self, now_ms: int, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> Effects[SeenConsumerGroups]:
        """Return what there is to describe of large groups, which takes long."""
        return self.look_at_each(
            described, DescribedConsumerGroup, SeenConsumerGroups, now_ms, request, context
        )

    def delete_groups(
        self, now_ms: int, request: DeleteGroupsRequest, context: RequestContext
    ) -> Effects[DeleteGroupsResponse]:
        """Handle a DeleteGroups: one operation per group [administration/delete].

        A group that is listed twice counts once.
        """
        group_ids = list(dict.fromkeys(request.groups_names))
        parts: list[Any] = [None] * len(group_ids)
        return self.run_for_each(
            lambda shard, group, part: delete_group(shard, group.group_id, now_ms, context, part),
            MultiGroupResponse(context.to, DeleteGroupsResponse(results=parts), parts),
            [DeletedGroup(group_id) for group_id in group_ids],
            now_ms,
            context.version,
        )
