"""The group coordinator as a whole: one method a request, in front of the shards (spec sections 2,
4 to 11 and 26).

It checks what needs no group (ids, bounds, where the partition stands), finds the shard by
hash(groupId), lets the verb do its work and applies the timers that follow. It is pure: the time is
an argument, ids come from a function it is given, and what is to be written or sent is returned.

Each method takes `now_ms` (epoch milliseconds from a clock that never goes back), the decoded
request, and the `RequestContext`. It returns `Effects`; their `answer` is None where the answer
comes later as a `Reply`.
"""

from collections.abc import Callable, Iterable

from coterie.coordinator.admin import delete_group, described, listed
from coterie.coordinator.answers import DeleteOne, DescribeOne, Gather, Part, refuse
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Effects, RequestContext, TimerKind
from coterie.coordinator.group import Group
from coterie.coordinator.heartbeat import ANSWERS as HEARTBEAT_ANSWERS
from coterie.coordinator.heartbeat import heartbeat
from coterie.coordinator.join import join
from coterie.coordinator.leave import leave
from coterie.coordinator.offsets import commit, delete_offsets, fetch
from coterie.coordinator.placement import partition_for
from coterie.coordinator.purgatory import Purgatory
from coterie.coordinator.shard import Shard, ShardState
from coterie.coordinator.sync import sync
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest

# From this version on SyncGroup says the protocol, and a null there is refused before anything else
# (spec section 5).
_SYNC_SAYS_PROTOCOL_SINCE = 5
# From this version on OffsetFetch names its groups in a list.
_FETCH_MANY_GROUPS_SINCE = 8


class GroupCoordinator:
    """All partitions of `__consumer_offsets` this node coordinates."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str], start_ms: int = 0) -> None:
        """A coordinator that owns no partition yet.

        Args:
            config: the settings.
            new_uuid: gives a fresh random uuid as text, for member ids.
            start_ms: where its clock stands.
        """
        self.config = config
        self.purgatory = Purgatory(start_ms)
        # Hashing spreads groups evenly, so twice the even share is room for any honest set of ids.
        partitions = config.offsets_topic_num_partitions
        max_groups = min(config.max_groups, 2 * config.max_groups // partitions + 1)
        self.shards = [
            Shard(partition, config, new_uuid, max_groups) for partition in range(partitions)
        ]
        self._partitions = partitions

    # -- groups ------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The `__consumer_offsets` partition of a group."""
        return partition_for(group_id, self._partitions)

    def group(self, group_id: str) -> Group | None:
        """A live group, to look at."""
        return self._shard(group_id).groups.get(group_id)

    def groups(self) -> Iterable[Group]:
        """Every live group, to look at."""
        for shard in self.shards:
            yield from shard.groups.values()

    def _shard(self, group_id: str) -> Shard:
        return self.shards[partition_for(group_id, self._partitions)]

    # -- membership --------------------------------------------------------------------------------

    def join_group(
        self, now_ms: int, request: JoinGroupRequest, context: RequestContext
    ) -> Effects:
        """JoinGroup (spec section 4)."""
        timeout_ms = request.session_timeout_ms
        config = self.config
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not (
            config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        else:
            shard = self._shard(request.group_id)
            error = _unavailable(shard)
            if not error:
                effects = join(shard, now_ms, request, context)
                return self._settled(shard, effects, now_ms, request, context)
        return Effects(refuse(request, error, context.version))

    def sync_group(
        self, now_ms: int, request: SyncGroupRequest, context: RequestContext
    ) -> Effects:
        """SyncGroup (spec section 5)."""
        if context.version >= _SYNC_SAYS_PROTOCOL_SINCE and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        else:
            shard = self._shard(request.group_id)
            error = _unavailable(shard)
            if not error:
                effects = sync(shard, now_ms, request, context)
                return self._settled(shard, effects, now_ms, request, context)
        return Effects(refuse(request, error, context.version))

    def heartbeat(self, now_ms: int, request: HeartbeatRequest) -> Effects:
        """Heartbeat (spec section 6): always answered at once, and without other effects."""
        group_id = request.group_id
        if not group_id:
            return HEARTBEAT_ANSWERS[ErrorCode.INVALID_GROUP_ID]
        shard = self.shards[partition_for(group_id, self._partitions)]
        if shard.state is ShardState.ACTIVE:
            return heartbeat(shard, now_ms, request)
        if shard.state is ShardState.LOADING:
            # Kafka lets members live while their partition loads: an error would make them rejoin
            # (quirk 1).
            return HEARTBEAT_ANSWERS[ErrorCode.NONE]
        return HEARTBEAT_ANSWERS[ErrorCode.NOT_COORDINATOR]

    def leave_group(
        self, now_ms: int, request: LeaveGroupRequest, context: RequestContext
    ) -> Effects:
        """LeaveGroup (spec section 7)."""
        shard = self._shard(request.group_id)
        error = _unavailable(shard) if request.group_id else ErrorCode.INVALID_GROUP_ID
        if error:
            return Effects(refuse(request, error, context.version))
        effects = leave(shard, now_ms, request, context)
        return self._settled(shard, effects, now_ms, request, context)

    # -- offsets -----------------------------------------------------------------------------------

    def offset_commit(
        self, now_ms: int, request: OffsetCommitRequest, context: RequestContext
    ) -> Effects:
        """OffsetCommit (spec section 9); topics have been looked up by the handler."""
        shard = self.shards[partition_for(request.group_id, self._partitions)]
        error = _unavailable(shard)
        if error:
            return Effects(refuse(request, error, context.version))
        effects = commit(shard, now_ms, request, context.version)
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def offset_fetch(
        self, now_ms: int, request: OffsetFetchRequest, context: RequestContext
    ) -> Effects:
        """OffsetFetch (spec section 10), of one group or of many."""
        if context.version >= _FETCH_MANY_GROUPS_SINCE and len(request.groups) != 1:
            parts: list[OffsetFetchResponseGroup] = [None] * len(request.groups)  # type: ignore[list-item]
            gather = Gather(context.to, OffsetFetchResponse(groups=parts), parts)
            return self._gathered(
                gather,
                [
                    self._fetch_part(now_ms, group, Part(gather, i))
                    for i, group in enumerate(request.groups)
                ],
            )
        if context.version >= _FETCH_MANY_GROUPS_SINCE:
            wanted = request.groups[0]
            group_id, topics = wanted.group_id, wanted.topics
        else:
            group_id, topics = request.group_id, request.topics
        shard = self._shard(group_id)
        error = _unavailable(shard)
        if error:
            return Effects(refuse(request, error, context.version))
        found = fetch(shard, group_id, topics)
        if context.version >= _FETCH_MANY_GROUPS_SINCE:
            group = OffsetFetchResponseGroup(
                group_id=group_id, topics=found, error_code=ErrorCode.NONE
            )
            answer = OffsetFetchResponse(groups=[group])
        else:
            answer = OffsetFetchResponse(topics=found)
        return shard.settle(Effects(answer), now_ms, request, context.to, context.version)

    def _fetch_part(self, now_ms: int, wanted: OffsetFetchRequestGroup, part: Part) -> Effects:
        shard = self._shard(wanted.group_id)
        error = _unavailable(shard)
        if error:
            effects = Effects()
            part.fill(refuse(wanted, error, 0), effects)
            return effects
        found = fetch(shard, wanted.group_id, wanted.topics)
        group = OffsetFetchResponseGroup(
            group_id=wanted.group_id, topics=found, error_code=ErrorCode.NONE
        )
        return self._settled_part(shard, Effects(group), now_ms, wanted, part)

    def offset_delete(
        self, now_ms: int, request: OffsetDeleteRequest, context: RequestContext
    ) -> Effects:
        """OffsetDelete (spec section 11)."""
        shard = self._shard(request.group_id)
        error = _unavailable(shard) if request.group_id else ErrorCode.INVALID_GROUP_ID
        if error:
            return Effects(refuse(request, error, context.version))
        effects = delete_offsets(shard, request)
        return self._settled(shard, effects, now_ms, request, context)

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> Effects:
        """Topics are gone: their committed offsets go too, in every group.

        Args:
            topics: (name, topic id) of each.
            now_ms: the time.
        """
        effects = Effects()
        for topic, topic_id in topics:
            for shard in self.shards:
                if shard.state is ShardState.ACTIVE:
                    shard.forget_topic(topic, topic_id, now_ms, effects)
        return self._applied(effects)

    # -- administration ----------------------------------------------------------------------------

    def list_groups(
        self, _now_ms: int, request: ListGroupsRequest, context: RequestContext
    ) -> Effects:
        """ListGroups: a partition that is not here is left out, one that still loads fails the
        whole (spec 2).
        """
        groups = []
        for shard in self.shards:
            error = _unavailable(shard)
            if error is ErrorCode.NOT_COORDINATOR:
                continue
            if error:
                return Effects(refuse(request, error, context.version))
            groups += listed(shard, request)
        return Effects(ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))

    def describe_groups(
        self, now_ms: int, request: DescribeGroupsRequest, context: RequestContext
    ) -> Effects:
        """DescribeGroups, in the order of the request."""
        parts = [None] * len(request.groups)
        gather = Gather(context.to, DescribeGroupsResponse(groups=parts), parts)  # type: ignore[arg-type]
        made = []
        for index, group_id in enumerate(request.groups):
            asked, part = DescribeOne(group_id), Part(gather, index)
            shard = self._shard(group_id)
            error = _unavailable(shard)
            if error:
                effects = Effects()
                part.fill(refuse(asked, error, context.version), effects)
            else:
                group = described(
                    shard,
                    group_id,
                    context.version,
                    with_operations=request.include_authorized_operations,
                )
                effects = self._settled_part(shard, Effects(group), now_ms, asked, part)
            made.append(effects)
        return self._gathered(gather, made)

    def delete_groups(
        self, now_ms: int, request: DeleteGroupsRequest, context: RequestContext
    ) -> Effects:
        """DeleteGroups: one operation a group; a name given twice counts once."""
        group_ids = list(dict.fromkeys(request.groups_names))
        parts = [None] * len(group_ids)
        gather = Gather(context.to, DeleteGroupsResponse(results=parts), parts)  # type: ignore[arg-type]
        made = []
        for index, group_id in enumerate(group_ids):
            asked, part = DeleteOne(group_id), Part(gather, index)
            shard = self._shard(group_id)
            error = _unavailable(shard)
            if error:
                effects = Effects()
                part.fill(refuse(asked, error, context.version), effects)
            else:
                done = delete_group(shard, group_id, now_ms, context)
                effects = self._settled_part(shard, done, now_ms, asked, part)
            made.append(effects)
        return self._gathered(gather, made)

    # -- the log -----------------------------------------------------------------------------------

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Take a partition over; False (and nothing to load) if the epoch is not newer than the one
        held.
        """
        return self.shards[partition].begin_load(epoch)

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """One record of a partition that is loading, in the order of the log."""
        self.shards[partition].replay(key, value)

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> Effects:
        """The log has been read to its end: the partition is served from now on.

        Args:
            partition: which one.
            now_ms: the time.
            skipped_records: records of unknown types that were not passed to `replay`.
        """
        effects = Effects()
        shard = self.shards[partition]
        shard.finish_load(now_ms, effects, skipped_records)
        return self._applied(effects)

    def reload(self, partition: int, now_ms: int) -> Effects:
        """Memory and log of a partition have parted: it loads again under the epoch it has (spec
        14.2).
        """
        effects = Effects()
        self.shards[partition].reload(now_ms, effects)
        return self._applied(effects)

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> Effects:
        """Give a partition up; ignored if an epoch is given that is not larger than the one held
        (spec 14.3).
        """
        effects = Effects()
        shard = self.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return effects
            shard.epoch = epoch
        shard.unload(now_ms, effects, ShardState.CLOSED)
        return self._applied(effects)

    def fail(self, partition: int, now_ms: int) -> Effects:
        """A partition's log can't be written or read any more: nothing is coordinated there until a
        newer load.
        """
        effects = Effects()
        self.shards[partition].unload(now_ms, effects, ShardState.FAILED)
        return self._applied(effects)

    def appended(self, partition: int, operations: int, now_ms: int) -> Effects:
        """The oldest `operations` appends of a partition are as durable as was promised."""
        effects = Effects()
        self.shards[partition].appended(operations, now_ms, effects)
        return self._applied(effects)

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> Effects:
        """All appends of a partition that were not acknowledged have failed."""
        effects = Effects()
        self.shards[partition].append_failed(error, now_ms, effects)
        return self._applied(effects)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` next."""
        return self.purgatory.next_deadline_ms()

    def advance(self, now_ms: int) -> Effects:
        """Do what is due by now, in order of deadline."""
        effects = Effects()
        applied = 0
        for key in self.purgatory.due(now_ms):
            kind, group_id, _ = key
            if kind is TimerKind.EXPIRY:
                self.shards[int(group_id)].sweep(now_ms, effects)
            else:
                effects.absorb(self._shard(group_id).timer_fired(key, now_ms))
            # At once, so that what one timer arms or cancels holds for the next that is due.
            for timer in effects.timers[applied:]:
                self.purgatory.apply(timer)
            applied = len(effects.timers)
        return effects

    # -- settling ----------------------------------------------------------------------------------

    def _settled(
        self, shard: Shard, effects: Effects, now_ms: int, request: object, context: RequestContext
    ) -> Effects:
        shard.settle(effects, now_ms, request, context.to, context.version)
        return self._applied(effects)

    def _settled_part(
        self, shard: Shard, effects: Effects, now_ms: int, asked: object, part: Part
    ) -> Effects:
        """Settle one group's part of a request; a part that is ready goes to its place."""
        shard.settle(effects, now_ms, asked, part)
        answer, effects.answer = effects.answer, None
        if answer is not None:
            part.fill(answer, effects)
        return self._applied(effects)

    def _gathered(self, gather: Gather, made: list[Effects]) -> Effects:
        """Put the effects of the parts together; with all parts ready the message is the answer."""
        effects = Effects()
        for each in made:
            # Not their replies: a part that was ready is in its place, and the whole is the answer.
            effects.appends += each.appends
            effects.timers += each.timers
            effects.events += each.events
        if not gather.missing:
            effects.answer = gather.message
        return effects

    def _applied(self, effects: Effects) -> Effects:
        for timer in effects.timers:
            self.purgatory.apply(timer)
        return effects


def _unavailable(shard: Shard) -> ErrorCode:
    """Why a partition can't answer, or NONE (spec section 2)."""
    if shard.state is ShardState.ACTIVE:
        return ErrorCode.NONE
    if shard.state is ShardState.LOADING:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR
