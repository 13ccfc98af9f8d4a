"""The life of one `__consumer_offsets` partition: its operations, its timers, its load and unload.

What a verb returns is settled here: its records change memory at once, in order, and go to the
server to be appended; its response is kept until they are durable [coordinator/durable-responses].
An operation that only reads waits behind the appends before it, so that no client sees what could
still be lost [coordinator/reads-wait]. If an append fails, nothing is undone: every request that
waits is answered with the error, memory is discarded, and the partition is loaded again from its
log [coordinator/failed-append]. An operation that does not fit a batch fails before it changes
anything [coordinator/operation-size].

Joins, syncs and static replacements change a group before their record is durable, as in Kafka.
Syncs and replacements leave a completion beside their records, a value that says what follows:
`AssignmentWrite` or `ReplacementWrite`. It holds the group itself, because a group that was deleted
and created again is another one, although id and generation may be the same.

Invariants: `unacknowledged` is in the order of the log; a shard that is not ACTIVE has no groups.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from coterie.coordinator.groups.batch_size import (
    always_fitting_offsets,
    fits_batch,
    split_into_batches,
)
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.heartbeat import expire_pending, expire_session
from coterie.coordinator.groups.classic.members import start_session
from coterie.coordinator.groups.classic.rebalance import Cause, join_timer_fired, prepare_rebalance
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.static_member import ReplacementWrite, replacement_stored
from coterie.coordinator.groups.classic.sync import (
    AssignmentWrite,
    assignment_stored,
    sync_timer_fired,
)
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.expiry import EXPIRED_TOGETHER, delete_topic_offsets, expire_group
from coterie.coordinator.groups.partition_state import GroupCount, PartitionState
from coterie.coordinator.groups.pending_offsets import MarkerWrite, TransactionEnd
from coterie.coordinator.groups.replay import replay, replay_encoded, replay_marker, replay_pending
from coterie.coordinator.groups.responses import (
    error_response,
    join_error,
    sync_error,
    translate_append_error,
)
from coterie.coordinator.groups.step import Step
from coterie.coordinator.kernel.effects import Effects, TimerKey, TimerKind
from coterie.coordinator.kernel.machine import Append, OpenRecord, R
from coterie.coordinator.kernel.operation import (
    NO_GROUP,
    Completion,
    Operation,
    refuse_large,
    send_response,
)
from coterie.coordinator.kernel.shard_state import ACTIVE, ShardState
from coterie.protocol.control_records import marker_pair
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    decode_value,
    group_of,
)
from coterie.protocol.messages.record_types import UnknownKey

# How much of a sweep is done in one call, counted in offsets that are looked at, and what a record
# that is written counts.
_SWEEP_WORK = 1_500
_RECORD_WORK = 16


class Shard(PartitionState):
    """One partition of the coordinator.

    Attributes:
        partition: its number.
        epoch: the leader epoch of its latest load or unload; -1 before the first.
        state: where it is in its life.
        unacknowledged: the operations whose records, or whose predecessors', are not durable yet.
        skipped_records: records of unknown types in the latest load.
    """

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        max_groups: int,
        all_groups: GroupCount,
    ) -> None:
        """Start without groups, not yet loaded."""
        super().__init__(config, new_uuid, max_groups, all_groups)
        self.partition = partition
        self.epoch = -1
        self.state = ShardState.INITIAL
        self.unacknowledged: deque[Operation] = deque()
        self.skipped_records = 0
        # The groups that the present sweep has left, the next one last.
        self._to_sweep: list[str] = []
        self._always_fitting_offsets = always_fitting_offsets(config.offset_metadata_max_size)

    # -- operations --------------------------------------------------------------------------------

    def settle(
        self,
        effects: Effects[R],
        now_ms: int,
        request: Any = None,
        to: Hashable = None,
        version: int = 0,
    ) -> Effects[R]:
        """Turn what one verb returned into an operation of this shard.

        A response leaves at once if the operation has no records and nothing before it is
        unacknowledged; otherwise it is delayed.

        Args:
            effects: what the verb returned; changed in place and returned.
            now_ms: the time.
            request: the request, to build its error response if the append fails.
            to: the reply address of a delayed response.
            version: the version of the request.
        """
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        records = effects.records
        if records:
            # Most operations are commits of few offsets, which fit whatever they contain. A verb
            # that logs a generation has checked its size.
            if len(records) > self._always_fitting_offsets and not fits_batch(records):
                return refuse_large(effects, request, version)
            logged, form = self.logged, effects.form
            if form is None:
                for record in records:
                    replay(logged, record)
            else:
                for record in records:
                    replay_pending(logged, form.producer_id, form.producer_epoch, record)
            first, last = records[0][0], records[-1]
            group_id = first.group if type(first) is OffsetCommitKey else group_of(first)
            if group_id not in self.groups:
                # A commit to an unknown group creates it [offsets/simple-group].
                self.create_group(group_id, now_ms)
            elif last[1] is None and type(last[0]) is GroupMetadataKey:
                self.remove_group(group_id, effects)
            effects.append(Append(self.partition, records, form))
        elif effects.response is None or not self.unacknowledged:
            return effects
        else:
            group_id = None
        response, effects.response = effects.response, None
        durable_events, completion = effects.durable_events, effects.completion
        self.unacknowledged.append(
            Operation(group_id, response, durable_events, completion, request, to, version)
        )
        return effects

    def end_transaction(self, end: TransactionEnd, to: Hashable) -> Effects[Any]:
        """Write a marker, and commit or drop the pending offsets of its transaction.

        The response is an error code; it is NONE when the marker is durable.
        """
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        effects: Effects[Any] = Effects()
        replay_marker(self.logged, end.producer_id, commit=end.marker.commit)
        self.marker_epochs[end.producer_id] = end.producer_epoch
        effects.append(Append(self.partition, (), end.form, marker_pair(end.marker)))
        written = MarkerWrite(end.producer_id, end.producer_epoch)
        self.unacknowledged.append(
            Operation(NO_GROUP, ErrorCode.NONE, (), written, end, to, version=0)
        )
        return effects

    def appended(self, operations: int, now_ms: int, effects: Effects[Any]) -> None:
        """Acknowledge the oldest appends: send their responses, and those of reads behind them."""
        unacknowledged = self.unacknowledged
        while unacknowledged:
            operation = unacknowledged[0]
            if operation.group_id is not None:
                if not operations:
                    return
                operations -= 1
            unacknowledged.popleft()
            if operation.durable_events:
                effects.add_events(operation.durable_events)
            if operation.response is not None:
                send_response(operation.to, operation.response, effects)
            if operation.completion is not None:
                self._complete(operation.completion, now_ms, effects)
        assert not operations, "the server acknowledges the appends that it was given, and no more"

    def append_failed(self, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """Discard what memory holds and start to load the log again [coordinator/failed-append].

        The epoch stays. Requests that wait for an append, and delayed requests of groups that have
        lost one, are answered with the translated error; other delayed requests with
        NOT_COORDINATOR.
        """
        self._discard(translate_append_error(error), now_ms, effects, ShardState.FAILED)
        self._begin_load()

    def _complete(self, completion: Completion, now_ms: int, effects: Effects[Any]) -> None:
        """Do what follows from a durable append."""
        if isinstance(completion, MarkerWrite):
            if self.marker_epochs.get(completion.producer_id) == completion.producer_epoch:
                del self.marker_epochs[completion.producer_id]
            return
        group = completion.group
        if self.groups.get(group.group_id) is not group:
            return
        step = Step(self, group, now_ms, effects)
        if type(completion) is AssignmentWrite:
            assignment_stored(step, completion)
        else:
            assert type(completion) is ReplacementWrite, completion
            replacement_stored(step, completion)

    # -- timers ------------------------------------------------------------------------------------

    def timer_fired(self, key: TimerKey, now_ms: int) -> Effects[Any]:
        """Handle the timer of one of the groups."""
        kind, group_id, member_id = key
        group = self.groups.get(group_id)
        effects: Effects[Any] = Effects()
        if group is None or group.state is GroupState.DEAD:
            return effects
        step = Step(self, group, now_ms, effects)
        if kind is TimerKind.SESSION:
            member = group.members.get(member_id)
            if member is not None:
                expire_session(step, member)
        elif kind is TimerKind.PENDING:
            expire_pending(step, member_id)
        elif kind is TimerKind.JOIN:
            join_timer_fired(step)
        else:
            assert kind is TimerKind.SYNC, kind
            sync_timer_fired(step)
        return self.settle(effects, now_ms)

    def sweep(self, now_ms: int, effects: Effects[Any]) -> None:
        """Remove expired offsets and groups, and arm the next sweep [offsets/sweep].

        Each group is an operation of its own, or several. One call does the work of about a
        millisecond; if groups are left, the next one is armed for the same time.
        """
        if not self._to_sweep:
            self._to_sweep = list(self.groups)[::-1]
        left = _SWEEP_WORK
        while self._to_sweep and left > 0:
            group_id = self._to_sweep.pop()
            group = self.groups.get(group_id)
            if group is None or group_id in self.logged.other_groups:
                left -= 1
                continue
            left -= 1 + sum(map(len, self.logged.offsets.get(group_id, {}).values()))
            expired = expire_group(self, group, now_ms)
            left -= _RECORD_WORK * len(expired.records)
            if len(expired.records) >= EXPIRED_TOGETHER:
                # There may be more.
                self._to_sweep.append(group_id)
            for part in split_into_batches(expired):
                effects.absorb(self.settle(part, now_ms))
        if self._to_sweep:
            effects.arm(TimerKind.EXPIRY, str(self.partition), "", now_ms)
        else:
            self._arm_sweep(now_ms, effects)

    def _arm_sweep(self, now_ms: int, effects: Effects[Any]) -> None:
        interval_ms = self.config.offsets_retention_check_interval_ms
        effects.arm(TimerKind.EXPIRY, str(self.partition), "", now_ms + interval_ms)

    def delete_topic_offsets(
        self, topic: str, topic_id: bytes, now_ms: int
    ) -> Iterator[Effects[Any]]:
        """Delete the offsets of a deleted topic in every group [offsets/topic-deletion].

        Requests may be handled between two steps. No client can commit an offset of the topic any
        more, but a transaction may end. The deletion ends early if the partition is given up.
        """
        logged = self.logged
        groups = {**logged.groups_by_topic.get(topic, {}), **logged.pending.by_topic.get(topic, {})}
        for group_id in groups:
            for deletion in delete_topic_offsets(self, group_id, topic, topic_id):
                for part in split_into_batches(deletion):
                    yield self.settle(part, now_ms)
                    if self.logged is not logged:
                        return

    # -- load and unload ---------------------------------------------------------------------------

    def begin_load(self, epoch: int) -> bool:
        """Start to load; return False if there is nothing to load [coordinator/epochs]."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        if self.state is ShardState.ACTIVE or self.state is ShardState.LOADING:
            return False
        self._begin_load()
        return True

    def _begin_load(self) -> None:
        assert not self.groups, f"partition {self.partition} is loaded twice"
        assert not self.unacknowledged, f"partition {self.partition} has operations"
        self.state = ShardState.LOADING
        self.skipped_records = 0

    def replay(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """Apply one record of the log while loading.

        Records of unknown types are skipped and counted [group-log/unknown-types].

        Raises:
            MalformedFrame: the record is not what its type says, or has an unknown value version.
        """
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        if key_bytes is None or not replay_encoded(self.logged, key_bytes, value_bytes):
            self.skipped_records += 1

    def replay_open(self, record: OpenRecord) -> None:
        """Apply a record of a transaction that is open at the end of the log.

        Raises:
            MalformedFrame: the record is not what its type says, or has an unknown value version.
        """
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        producer_id, producer_epoch, key, value, overtaken = record
        decoded = decode_key(key)
        if not isinstance(decoded, UnknownKey):
            pair = decoded, decode_value(decoded, value)
            if replay_pending(self.logged, producer_id, producer_epoch, pair, overtaken=overtaken):
                return
        self.skipped_records += 1

    def finish_load(self, now_ms: int, effects: Effects[Any], skipped_records: int = 0) -> None:
        """Create the groups that the log describes and serve them.

        Every member has one session timeout to return [coordinator/loaded-sessions]. A group that
        is too large starts a rebalance [coordinator/oversize-at-load].

        Args:
            now_ms: the time.
            effects: receives timers, events and appends.
            skipped_records: the number of records that the reader of the log has left out.
        """
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        self.skipped_records += skipped_records
        self.state = ShardState.ACTIVE
        self.restore_groups()
        for group in self.groups.values():
            step = Step(self, group, now_ms, effects)
            for member in group.members.values():
                start_session(step, member, member.session_timeout_ms)
            if len(group.members) > self.config.group_max_size:
                following = Step(self, group, now_ms, Effects())
                prepare_rebalance(following, Cause.LOAD)
                effects.absorb(self.settle(following.effects, now_ms))
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
        self._arm_sweep(now_ms, effects)

    def unload(self, now_ms: int, effects: Effects[Any], state: ShardState) -> None:
        """Give the partition up and answer every delayed request [coordinator/unload].

        Args:
            now_ms: the time.
            effects: receives replies, cancelled timers and the event.
            state: CLOSED or FAILED.
        """
        self._discard(ErrorCode.NOT_COORDINATOR, now_ms, effects, state)

    def _discard(
        self, error: ErrorCode, now_ms: int, effects: Effects[Any], state: ShardState
    ) -> None:
        """Answer everything that waits, and forget all groups.

        Args:
            error: for the unacknowledged operations, and the delayed requests of their groups.
            now_ms: the time.
            effects: receives replies, cancelled timers and the event.
            state: the state afterwards.
        """
        failed_groups = {operation.group_id for operation in self.unacknowledged}
        for operation in self.unacknowledged:
            if operation.response is not None:
                response = error_response(operation.request, error, operation.version)
                send_response(operation.to, response, effects)
        for group_id, group in self.groups.items():
            code = error if group_id in failed_groups else ErrorCode.NOT_COORDINATOR
            self._close_group(group, code, effects)
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
        self.forget_groups()
        self._to_sweep = []
        self.unacknowledged.clear()
        self.state = state

    def _close_group(self, group: Group, error: ErrorCode, effects: Effects[Any]) -> None:
        """Answer the delayed requests of a group that ceases to exist and cancel its timers."""
        group_id = group.group_id
        for member in group.members.values():
            join_to = group.take_delayed_join(member)
            if join_to is not None:
                effects.reply(join_to, join_error(error, member.member_id))
            sync_to = member.take_delayed_sync()
            if sync_to is not None:
                effects.reply(sync_to, sync_error(error))
            effects.cancel(TimerKind.SESSION, group_id, member.member_id)
        for member_id in sorted(group.pending_joins):
            effects.cancel(TimerKind.PENDING, group_id, member_id)
        effects.cancel(TimerKind.JOIN, group_id)
        effects.cancel(TimerKind.SYNC, group_id)
