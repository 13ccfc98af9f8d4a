"""The groups of one `__consumer_offsets` partition: its life, its unacknowledged operations, its
timers.

Every operation is settled here: its records change memory at once, in order, and go to the server
to be appended; its answer is held until they are durable. An operation without records that reads
state waits behind the appends before it, so nobody is shown what could still be taken back. If an
append fails, memory goes back to before it and every holder is told (spec section 14.2). An
operation that fits no batch fails before it has changed anything.

Invariants: `unacknowledged` is in the order of the log; `groups` has a group for every id in
    `logged`; a shard that is not ACTIVE has no groups.
"""

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any

from coterie.coordinator.answers import Part, join_error, refuse, sync_error, translate
from coterie.coordinator.batch_size import fits_batch, in_parts, sure_offsets
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Append, Effects, Reply, TimerKey, TimerKind
from coterie.coordinator.expiry import expire_group, forget_topic
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.group_record import restore
from coterie.coordinator.heartbeat import expire_pending, expire_session
from coterie.coordinator.join import GroupCreation
from coterie.coordinator.members import start_session
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.rebalance import Cause, join_timer_fired, prepare_rebalance
from coterie.coordinator.replay import LoggedState, replay, take_back
from coterie.coordinator.static_member import (
    ReplacementWrite,
    replacement_failed,
    replacement_stored,
)
from coterie.coordinator.sync import (
    AssignmentWrite,
    assignment_failed,
    assignment_stored,
    sync_timer_fired,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_value,
)

Completion = GroupCreation | AssignmentWrite | ReplacementWrite


class ShardState(Enum):
    """The life of a shard (spec section 14.3)."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Shard(PartitionState):
    """One partition of the coordinator.

    Attributes:
        partition: its number.
        epoch: the leader epoch it was loaded with; -1 before.
        state: see ShardState.
        groups: the live groups by id.
        logged: what its log says.
        unacknowledged: operations whose records, or whose predecessors', are not durable yet.
        skipped_records: records of the last load whose type is not known here.
    """

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        max_groups: int,
    ) -> None:
        """A partition that holds nothing yet."""
        super().__init__(config, new_uuid, max_groups)
        self.partition = partition
        self.epoch = -1
        self.state = ShardState.INITIAL
        self.unacknowledged: deque[Effects] = deque()
        self.skipped_records = 0
        self._sure_offsets = sure_offsets(config.offset_metadata_max_size)

    # -- operations --------------------------------------------------------------------------------

    def settle(
        self,
        effects: Effects,
        now_ms: int,
        request: Any = None,
        to: Hashable = None,
        version: int = 0,
    ) -> Effects:
        """Turn what one verb produced into an operation of this shard.

        Its records change memory and are handed out to be appended; its answer is held until they
        are durable. Without records, and with nothing unacknowledged before it, the answer can
        leave at once.

        Args:
            effects: of one verb; changed in place and returned.
            now_ms: the time.
            request: what was asked, for the answer should the append fail.
            to: where a held answer goes.
            version: of the request.
        """
        records = effects.records
        if records:
            if (
                len(records) > self._sure_offsets or type(records[0][0]) is not OffsetCommitKey
            ) and not fits_batch(records):
                return self._refuse_large(effects, now_ms, request, to, version)
            logged, undo = self.logged, effects.undo
            for record in records:
                replay(logged, record, undo)
            effects.appends.append(Append(self.partition, records))
        elif effects.answer is None or not self.unacknowledged:
            return effects
        effects.delayed_answer, effects.answer = effects.answer, None
        effects.request = request
        effects.to = to
        effects.version = version
        self.unacknowledged.append(effects)
        return effects

    def _refuse_large(
        self, effects: Effects, now_ms: int, request: Any, to: Hashable, version: int
    ) -> Effects:
        """An operation that fits no batch fails alone and at once, as if its append had failed."""
        effects.records = []
        effects.delayed_answer, effects.answer = effects.answer, None
        effects.request = request
        effects.to = to
        effects.version = version
        waiting, self.unacknowledged = self.unacknowledged, deque([effects])
        self.append_failed(ErrorCode.MESSAGE_TOO_LARGE, now_ms, effects)
        # What its failure has led to, if anything, comes after all that was there before.
        self.unacknowledged.extendleft(reversed(waiting))
        return effects

    def appended(self, operations: int, now_ms: int, effects: Effects) -> None:
        """That many appends are durable: release what waited for them, and reads behind them."""
        waiting = self.unacknowledged
        while waiting:
            operation = waiting[0]
            if operation.records:
                if not operations:
                    return
                operations -= 1
            waiting.popleft()
            if operation.stored_events:
                effects.events += operation.stored_events
            if operation.delayed_answer is not None:
                _release(operation.to, operation.delayed_answer, effects)
            if operation.completion is not None:
                self._completed(operation.completion, now_ms, effects)
        assert not operations, "the log acknowledges what was given to it, and no more"

    def append_failed(self, error: ErrorCode, now_ms: int, effects: Effects) -> None:
        """Every unacknowledged append failed: take the changes back, newest first, and tell whoever
        waits.
        """
        code = translate(error)
        failed = list(self.unacknowledged)
        self.unacknowledged.clear()
        existed = dict(self.groups)
        for operation in reversed(failed):
            take_back(operation.undo)
        for group_id, group in existed.items():
            if self.groups.get(group_id) is not group:
                self._dissolve(group, code, effects)
        for operation in failed:
            if operation.delayed_answer is not None:
                refused = refuse(operation.request, code, operation.version)
                _release(operation.to, refused, effects)
        for operation in reversed(failed):
            if operation.completion is not None:
                self._failed(operation.completion, code, now_ms, effects)

    def _completed(self, completion: Completion, now_ms: int, effects: Effects) -> None:
        group = completion.group
        if self.groups.get(group.group_id) is not group:
            return
        if type(completion) is AssignmentWrite:
            assignment_stored(group, completion, now_ms, effects)
        elif type(completion) is ReplacementWrite:
            replacement_stored(group, completion, now_ms, effects)

    def _failed(
        self, completion: Completion, error: ErrorCode, now_ms: int, effects: Effects
    ) -> None:
        group = completion.group
        if self.groups.get(group.group_id) is not group:
            return
        sequel = Effects()
        if type(completion) is AssignmentWrite:
            assignment_failed(self, group, completion, error, now_ms, sequel)
        elif type(completion) is ReplacementWrite:
            replacement_failed(group, completion, error, now_ms, sequel)
        else:
            assert type(completion) is GroupCreation
            self._dissolve(group, error, sequel)
            del self.groups[group.group_id]
        effects.absorb(self.settle(sequel, now_ms))

    # -- timers ------------------------------------------------------------------------------------

    def timer_fired(self, key: TimerKey, now_ms: int) -> Effects:
        """A timer of one of our groups ended by time."""
        kind, group_id, member_id = key
        group = self.groups.get(group_id)
        effects = Effects()
        if group is None or group.state is GroupState.DEAD:
            return effects
        if kind is TimerKind.SESSION:
            member = group.members.get(member_id)
            if member is not None:
                expire_session(self, group, member, now_ms, effects)
        elif kind is TimerKind.PENDING:
            expire_pending(group, member_id, now_ms, effects)
        elif kind is TimerKind.JOIN:
            join_timer_fired(self, group, now_ms, effects)
        else:
            assert kind is TimerKind.SYNC, kind
            sync_timer_fired(self, group, now_ms, effects)
        return self.settle(effects, now_ms)

    def sweep(self, now_ms: int, effects: Effects) -> None:
        """Expire what has passed its retention, an operation a group or some where one batch is too
        small, and come back after the interval.
        """
        for group in list(self.groups.values()):
            for part in in_parts(expire_group(self, group, now_ms)):
                effects.absorb(self.settle(part, now_ms))
        interval_ms = self.config.offsets_retention_check_interval_ms
        effects.arm(TimerKind.EXPIRY, str(self.partition), "", now_ms + interval_ms)

    def forget_topic(self, topic: str, topic_id: bytes, now_ms: int, effects: Effects) -> None:
        """A topic was deleted: its offsets go, in every group."""
        for group_id in list(self.logged.offsets):
            for part in in_parts(forget_topic(self, group_id, topic, topic_id)):
                effects.absorb(self.settle(part, now_ms))

    # -- load and unload ---------------------------------------------------------------------------

    def begin_load(self, epoch: int) -> bool:
        """Start loading; False if the epoch is not larger than the one held."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        if self.state is ShardState.ACTIVE or self.state is ShardState.LOADING:
            return False
        self._begin()
        return True

    def reload(self, now_ms: int, effects: Effects) -> None:
        """Memory and log have parted: start over from the log, under the same epoch (spec 14.2)."""
        self.unload(now_ms, effects, ShardState.FAILED)
        self._begin()

    def _begin(self) -> None:
        self.state = ShardState.LOADING
        self.logged = LoggedState()
        self.groups = {}
        self.skipped_records = 0

    def replay(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """One record of the log while loading.

        Records of types that are not known here are skipped and counted (KIP-848 and newer ones).

        Raises:
            MalformedFrame: a record that is not what its type says, or of an unknown value version.
        """
        if key_bytes is None:
            self.skipped_records += 1
            return
        key = decode_key(key_bytes)
        if isinstance(key, UnknownKey):
            self.skipped_records += 1
            return
        replay(self.logged, (key, decode_value(key, value_bytes)))

    def finish_load(self, now_ms: int, effects: Effects, skipped_records: int = 0) -> None:
        """Make the groups that the log describes; their members get a whole session to come back
        (spec 14.3).

        Args:
            now_ms: the time.
            effects: gathers timers and what a group that is too large by now leads to.
            skipped_records: records that whoever read the log has left out.
        """
        assert self.state is ShardState.LOADING
        self.skipped_records += skipped_records
        self.state = ShardState.ACTIVE
        for group_id, value in self.logged.groups.items():
            self.groups[group_id] = restore(group_id, value)
        for group_id in self.logged.offsets:
            if group_id not in self.groups:
                self.groups[group_id] = restore(group_id, None)
        for group in self.groups.values():
            for member in group.members.values():
                start_session(group, member, member.session_timeout_ms, now_ms, effects)
            if len(group.members) > self.config.group_max_size:
                sequel = Effects()
                prepare_rebalance(self, group, now_ms, sequel, Cause.LOAD)
                effects.absorb(self.settle(sequel, now_ms))
        effects.note(
            "",
            PartitionLoaded(
                at_ms=now_ms,
                partition=self.partition,
                leader_epoch=self.epoch,
                group_count=len(self.groups),
                member_count=sum(len(group.members) for group in self.groups.values()),
            ),
        )
        interval_ms = self.config.offsets_retention_check_interval_ms
        effects.arm(TimerKind.EXPIRY, str(self.partition), "", now_ms + interval_ms)

    def unload(self, now_ms: int, effects: Effects, state: ShardState) -> None:
        """Give the partition up: whoever waits is told to look for its coordinator elsewhere."""
        self.append_failed(ErrorCode.NOT_COORDINATOR, now_ms, effects)
        effects.appends.clear()
        for group in self.groups.values():
            self._dissolve(group, ErrorCode.NOT_COORDINATOR, effects)
            group.transition(GroupState.DEAD, now_ms)
        effects.cancel(TimerKind.EXPIRY, str(self.partition))
        effects.note(
            "",
            PartitionUnloaded(
                at_ms=now_ms,
                partition=self.partition,
                leader_epoch=self.epoch,
                group_count=len(self.groups),
                cause=state.value,
            ),
        )
        self.groups = {}
        self.logged = LoggedState()
        self.unacknowledged.clear()
        self.state = state

    def _dissolve(self, group: Group, error: ErrorCode, effects: Effects) -> None:
        """A group goes without its members' doing: whoever is parked is told, no timer is left."""
        group_id = group.group_id
        for member in group.members.values():
            to = group.take_join(member)
            if to is not None:
                effects.replies.append(Reply(to, join_error(error, member.member_id)))
            if member.delayed_sync is not None:
                effects.replies.append(Reply(member.delayed_sync, sync_error(error)))
                member.delayed_sync = None
            effects.cancel(TimerKind.SESSION, group_id, member.member_id)
        for member_id in sorted(group.pending_joins):
            effects.cancel(TimerKind.PENDING, group_id, member_id)
        effects.cancel(TimerKind.JOIN, group_id)
        effects.cancel(TimerKind.SYNC, group_id)


def _release(to: Any, message: Any, effects: Effects) -> None:
    """Send a held answer, or put it into the place it has in an answer of several parts."""
    if type(to) is Part:
        to.fill(message, effects)
    elif to is not None:
        effects.replies.append(Reply(to, message))
