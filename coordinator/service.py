"""The group coordinator as a whole: one method per request, in front of the shards.

A method checks what needs no group (ids, bounds, whether the partition is available), finds the
shard of the group [coordinator/partition], lets the verb do its work and applies the timers. The
coordinator is pure: the time is an argument, UUIDs come from a function, and everything to write or
send is returned.

A method takes `now_ms` (epoch milliseconds of a clock that never goes back), the decoded request
and its `RequestContext`. It returns `Effects`; their `response` is None if the response comes later
as a `Reply`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from coterie.coordinator.admin import delete_group, describe_group, list_groups
from coterie.coordinator.classic.group import Group
from coterie.coordinator.classic.heartbeat import RESPONSES as HEARTBEAT_RESPONSES
from coterie.coordinator.classic.heartbeat import heartbeat
from coterie.coordinator.classic.join import join
from coterie.coordinator.classic.leave import leave
from coterie.coordinator.classic.rebalance import rebalance_on_request
from coterie.coordinator.classic.sync import sync
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Effects, TimerKind
from coterie.coordinator.loading import NewestRecords
from coterie.coordinator.machine import Pair, Record, RequestContext
from coterie.coordinator.offsets import commit, delete_offsets, fetch, fetch_group
from coterie.coordinator.partition_state import GroupCount
from coterie.coordinator.purgatory import Purgatory
from coterie.coordinator.responses import (
    DeletedGroup,
    DescribedGroup,
    MultiGroupResponse,
    ResponsePart,
    error_response,
)
from coterie.coordinator.shard import Shard
from coterie.coordinator.shard_state import ACTIVE, ShardState, availability_error
from coterie.coordinator.topic_image import TopicChange, TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.log_records import GROUP_RECORDS, encode_key, encode_value
from coterie.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# From this version on SyncGroup names the protocol [syncing/protocol-present].
_SYNC_NAMES_PROTOCOL_SINCE = 5
# From this version on OffsetFetch lists groups [offsets/fetch-many-groups].
_FETCH_MANY_GROUPS_SINCE = 8

# Of how many group ids the partition is kept, which takes longer to compute than to look up.
_REMEMBERED_SHARDS = 16_384

# Read for every request: a global is read faster than a member of an enumeration.
_NONE = ErrorCode.NONE


class GroupRequest(Protocol):
    """A request about one group."""

    group_id: str


# A request and its response.
Q = TypeVar("Q", bound=GroupRequest)
R = TypeVar("R")


class GroupCoordinator:
    """All partitions of `__consumer_offsets` that this broker coordinates.

    Attributes:
        config: the settings.
        topics: the topics of the cluster.
        purgatory: the timers of all partitions.
        shards: the partitions by number.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        start_ms: int = 0,
        topics: TopicsImage | None = None,
    ) -> None:
        """Start without a loaded partition.

        Args:
            config: the settings.
            new_uuid: returns a new random UUID as text, for member ids.
            start_ms: the time.
            topics: the topics of the cluster; by default there are none.
        """
        self.topics = TopicsImage({}, {}) if topics is None else topics
        self.config = config
        self.purgatory = Purgatory(start_ms)
        # Hashing spreads ids evenly, so ids that were not chosen on purpose stay well below twice
        # the even share of a partition [coordinator/group-limit].
        partitions = config.offsets_topic_num_partitions
        max_groups = min(config.max_groups, 2 * config.max_groups // partitions + 1)
        self._all_groups = all_groups = GroupCount(config.max_groups)
        self.shards = [
            Shard(partition, config, new_uuid, max_groups, all_groups)
            for partition in range(partitions)
        ]
        self._partitions = partitions
        # Where the groups of the latest requests are.
        self._shard_of: dict[str, Shard] = {}

    # -- groups ------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the `__consumer_offsets` partition of a group."""
        return partition_for(group_id, self._partitions)

    def group(self, group_id: str) -> Group | None:
        """Return a live group, for reading."""
        return self._shard(group_id).groups.get(group_id)

    def groups(self) -> Iterable[Group]:
        """Yield every live group, for reading."""
        for shard in self.shards:
            yield from shard.groups.values()

    def _shard(self, group_id: str) -> Shard:
        return self._shard_of.get(group_id) or self._remember_shard(group_id)

    def _remember_shard(self, group_id: str) -> Shard:
        """Return the shard of a group whose requests have not looked for it for some time."""
        known = self._shard_of
        if len(known) >= _REMEMBERED_SHARDS:
            known.clear()
        shard = known[group_id] = self.shards[partition_for(group_id, self._partitions)]
        return shard

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
        return self._run(join, error, now_ms, request, context)

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
        return self._run(sync, error, now_ms, request, context)

    def heartbeat(self, now_ms: int, request: HeartbeatRequest) -> Effects[HeartbeatResponse]:
        """Handle a Heartbeat; the response is the only effect [sessions/heartbeat]."""
        group_id = request.group_id
        if not group_id:
            return HEARTBEAT_RESPONSES[ErrorCode.INVALID_GROUP_ID]
        # As in `_shard`, without the call.
        shard = self._shard_of.get(group_id) or self._remember_shard(group_id)
        if shard.state is ACTIVE:
            return heartbeat(shard, now_ms, request)
        if shard.state is ShardState.LOADING:
            # An error would make the members rejoin [sessions/heartbeat-while-loading].
            return HEARTBEAT_RESPONSES[ErrorCode.NONE]
        return HEARTBEAT_RESPONSES[ErrorCode.NOT_COORDINATOR]

    def leave_group(
        self, now_ms: int, request: LeaveGroupRequest, context: RequestContext
    ) -> Effects[LeaveGroupResponse]:
        """Handle a LeaveGroup [sessions/leave]."""
        error = _NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
        return self._run(leave, error, now_ms, request, context)

    def begin_rebalance(self, group_id: str, reason: str, now_ms: int) -> Effects[Any]:
        """Begin a rebalance that no member has caused; no effects if the group cannot."""
        shard = self._shard(group_id)
        effects = rebalance_on_request(shard, group_id, reason, now_ms)
        return self._applied(shard.settle(effects, now_ms))

    def _run(
        self,
        verb: Callable[[Shard, int, Q, RequestContext], Effects[R]],
        error: ErrorCode,
        now_ms: int,
        request: Q,
        context: RequestContext,
    ) -> Effects[R]:
        """Let a verb handle a request unless `error` or its partition's state refuses it."""
        shard = self._shard(request.group_id)
        error = error or availability_error(shard.state)
        if error:
            return Effects(error_response(request, error, context.version))
        effects = verb(shard, now_ms, request, context)
        return self._applied(shard.settle(effects, now_ms, request, context.to, context.version))

    # -- offsets -----------------------------------------------------------------------------------

    def offset_commit(
        self, now_ms: int, request: OffsetCommitRequest, context: RequestContext
    ) -> Effects[OffsetCommitResponse]:
        """Handle an OffsetCommit of partitions that exist; it has no timers."""
        shard = self._shard(request.group_id)
        error = availability_error(shard.state)
        if error:
            return Effects(error_response(request, error, context.version))
        effects = commit(shard, now_ms, request, context.version)
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def offset_fetch(
        self, now_ms: int, request: OffsetFetchRequest, context: RequestContext
    ) -> Effects[OffsetFetchResponse]:
        """Handle an OffsetFetch of one group or of several."""
        many = context.version >= _FETCH_MANY_GROUPS_SINCE
        if many and len(request.groups) != 1:
            parts: list[Any] = [None] * len(request.groups)
            return self._run_for_each(
                lambda shard, group: Effects(fetch_group(shard, group)),
                MultiGroupResponse(context.to, OffsetFetchResponse(groups=parts), parts),
                request.groups,
                now_ms,
                context.version,
            )
        shard = self._shard(request.groups[0].group_id if many else request.group_id)
        error = availability_error(shard.state)
        if error:
            return Effects(error_response(request, error, context.version))
        if many:
            response = OffsetFetchResponse(groups=[fetch_group(shard, request.groups[0])])
        else:
            response = OffsetFetchResponse(topics=fetch(shard, request.group_id, request.topics))
        return shard.settle(Effects(response), now_ms, request, context.to, context.version)

    def offset_delete(
        self, now_ms: int, request: OffsetDeleteRequest, context: RequestContext
    ) -> Effects[OffsetDeleteResponse]:
        """Handle an OffsetDelete of partitions that exist [offsets/delete]."""
        error = _NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
        return self._run(delete_offsets, error, now_ms, request, context)

    def topics_changed(self, changes: Iterable[TopicChange], now_ms: int) -> Effects[Any]:
        """Delete the committed offsets of deleted topics in every group [offsets/topic-deletion].

        Other changes of topics do not concern classic groups.
        """
        effects: Effects[Any] = Effects()
        for before, now in changes:
            if before is None or now is not None:
                continue
            for shard in self.shards:
                if shard.state is ShardState.ACTIVE:
                    shard.delete_topic_offsets(before.name, before.topic_id, now_ms, effects)
        return self._applied(effects)

    # -- administration ----------------------------------------------------------------------------

    def list_groups(
        self, _now_ms: int, request: ListGroupsRequest, context: RequestContext
    ) -> Effects[ListGroupsResponse]:
        """Handle a ListGroups."""
        error, shards = self.listable_shards()
        if error:
            return Effects(error_response(request, error, context.version))
        groups = [
            group for shard in shards for part in list_groups(shard, request) for group in part
        ]
        return Effects(ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))

    def listable_shards(self) -> tuple[ErrorCode, list[Shard]]:
        """Return the partitions that ListGroups covers, or the error that it gets.

        [administration/list-partitions]
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
        return self._run_for_each(
            lambda shard, group: Effects(
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

    def delete_groups(
        self, now_ms: int, request: DeleteGroupsRequest, context: RequestContext
    ) -> Effects[DeleteGroupsResponse]:
        """Handle a DeleteGroups: one operation per group [administration/delete-is-atomic].

        A group that is listed twice counts once [administration/delete-named-twice].
        """
        group_ids = list(dict.fromkeys(request.groups_names))
        parts: list[Any] = [None] * len(group_ids)
        return self._run_for_each(
            lambda shard, group: delete_group(shard, group.group_id, now_ms, context),
            MultiGroupResponse(context.to, DeleteGroupsResponse(results=parts), parts),
            [DeletedGroup(group_id) for group_id in group_ids],
            now_ms,
            context.version,
        )

    def _run_for_each(
        self,
        verb: Callable[[Shard, Any], Effects[Any]],
        response: MultiGroupResponse,
        groups: Sequence[Any],
        now_ms: int,
        version: int,
    ) -> Effects[Any]:
        """Let a verb handle every group of a request; the response leaves with its last part.

        Args:
            verb: returns effects with the part of one group as their response.
            response: receives the parts.
            groups: the parts of the request, with a `group_id` each.
            now_ms: the time.
            version: the version of the request.
        """
        effects: Effects[Any] = Effects()
        for index, group in enumerate(groups):
            part = ResponsePart(response, index)
            shard = self._shard(group.group_id)
            error = availability_error(shard.state)
            if error:
                done = Effects(error_response(group, error, version))
            else:
                done = shard.settle(verb(shard, group), now_ms, group, part)
            if done.response is not None:
                part.deliver(done.response, done)
            # Without its replies: if the last part was delivered here, the whole is the response.
            effects.absorb_all_but_replies(done)
        if not response.missing:
            effects.response = response.message
        return self._applied(effects)

    # -- the log -----------------------------------------------------------------------------------

    def epoch(self, partition: int) -> int:
        """Return the leader epoch of the latest load or unload; -1 before the first."""
        return self.shards[partition].epoch

    def reader(self) -> NewestRecords:
        """Return a reader for the log of a partition."""
        return NewestRecords(GROUP_RECORDS)

    def encode(self, record: Record) -> Pair:
        """Return key and value of a record as bytes."""
        key, value = record
        return encode_key(key), None if value is None else encode_value(value)

    def totals(self) -> dict[str, int]:
        """Return the number of groups."""
        return {"groups": self._all_groups.groups}

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Start to load a partition; return False if there is nothing to load.

        That is so if the epoch is not newer than the present one, or if the partition is loading or
        loaded already [coordinator/epochs].
        """
        return self.shards[partition].begin_load(epoch)

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of a partition that is being loaded, in the order of the log."""
        self.shards[partition].replay(key, value)

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> Effects[Any]:
        """Serve a partition whose log has been read to its end.

        Args:
            partition: its number.
            now_ms: the time.
            skipped_records: the number of records that the reader of the log has left out.
        """
        effects: Effects[Any] = Effects()
        self.shards[partition].finish_load(now_ms, effects, skipped_records)
        return self._applied(effects)

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> Effects[Any]:
        """Give a partition up [coordinator/unload].

        Nothing happens if `epoch` is given and not newer than the present one [coordinator/epochs].
        """
        effects: Effects[Any] = Effects()
        shard = self.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return effects
            shard.epoch = epoch
        shard.unload(now_ms, effects, ShardState.CLOSED)
        return self._applied(effects)

    def fail(self, partition: int, now_ms: int) -> Effects[Any]:
        """Give up a partition whose log cannot be used [coordinator/failed-partition]."""
        effects: Effects[Any] = Effects()
        self.shards[partition].unload(now_ms, effects, ShardState.FAILED)
        return self._applied(effects)

    def appended(self, partition: int, operations: int, now_ms: int) -> Effects[Any]:
        """Acknowledge the oldest `operations` appends of a partition as durable."""
        effects: Effects[Any] = Effects()
        self.shards[partition].appended(operations, now_ms, effects)
        return self._applied(effects)

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> Effects[Any]:
        """Answer what waits for a lost append, and start to load the partition again.

        [coordinator/failed-append] [coordinator/log-position]
        """
        effects: Effects[Any] = Effects()
        self.shards[partition].append_failed(error, now_ms, effects)
        return self._applied(effects)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next."""
        return self.purgatory.next_deadline_ms()

    def advance(self, now_ms: int) -> Effects[Any]:
        """Handle all timers that are due, in the order of their deadlines."""
        effects: Effects[Any] = Effects()
        applied = 0
        for key in self.purgatory.due(now_ms):
            kind, group_id, _ = key
            if kind is TimerKind.EXPIRY:
                self.shards[int(group_id)].sweep(now_ms, effects)
            else:
                effects.absorb(self._shard(group_id).timer_fired(key, now_ms))
            # At once, so that a timer that this one cancelled or moved does not fire.
            for timer in effects.timers[applied:]:
                self.purgatory.apply(timer)
            applied = len(effects.timers)
        return effects

    # -- settling ----------------------------------------------------------------------------------

    def _applied(self, effects: Effects[R]) -> Effects[R]:
        for timer in effects.timers:
            self.purgatory.apply(timer)
        return effects
