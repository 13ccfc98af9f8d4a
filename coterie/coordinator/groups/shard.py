"""One partition of `__consumer_offsets`: groups of every type, their offsets, timers and sweeps.

What a record does to memory, and what follows from a durable one, is settled here for what all
groups have in common; the rest is up to the type of each group.

Joins, syncs and static replacements change a group before their record is durable, as in Kafka.
They leave a completion beside their records, a value that says what follows. It holds the group
itself, because a group that was deleted and created again, or replaced by one of another type, is
another one, although its id may be the same.

Invariant: a shard that is not ACTIVE has no groups.
"""

from collections.abc import Hashable, Iterator
from typing import Any

from coterie.coordinator.groups.batch_size import encoded_batch, split_into_batches
from coterie.coordinator.groups.expiry import EXPIRED_TOGETHER, delete_topic_offsets, expire_group
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.held_partition import HeldPartition
from coterie.coordinator.groups.pending_offsets import MarkerWrite, TransactionEnd
from coterie.coordinator.groups.replay import replay, replay_encoded, replay_marker, replay_pending
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.operation import NO_GROUP, Operation
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.kernel.timers import TimerKey
from coterie.protocol.control_records import marker_pair
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import decode_key, decode_value
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.record_types import UnknownKey

# The kind of the timer of a partition's next sweep. Its key has the number of the partition in
# place of the group.
SWEEP_TIMER = "expiry"

# How much of a sweep is done in one call, counted in offsets that are looked at, and what a record
# that is written counts.
_SWEEP_WORK = 1_500
_RECORD_WORK = 16


class GroupShard(HeldPartition):
    """One partition of the group coordinator."""

    # The groups that the present sweep has left, the next one last; there is none before a load.
    _to_sweep: list[str]

    @property
    def is_blank(self) -> bool:
        """See `Shard`."""
        return not self.groups

    # -- operations --------------------------------------------------------------------------------

    def fits(self, operation: Operation) -> bool:
        """See `Shard`. A verb that logs a generation has checked its size."""
        if operation.pairs is None:
            operation.pairs = encoded_batch(operation.records)
        return operation.pairs is not None

    def apply(
        self,
        operation: Operation,
        now_ms: int,  # noqa: ARG002 - a verb makes what it creates
        effects: Effects[Any],
    ) -> None:
        """See `Shard`: apply the records, then remove and create the group of the operation."""
        logged, form = self.logged, operation.form
        if self.holds:
            self.keep_offsets(operation.key)
        if form is None:
            for record in operation.records:
                replay(logged, record)
        elif operation.marker is None:
            for record in operation.records:
                replay_pending(logged, form.producer_id, form.producer_epoch, record)
        removed, created = operation.removes, operation.creates
        if removed is not None:
            assert created is not None or removed.is_empty, f"{removed} is not Empty"
            assert removed.group_id == operation.key, f"{removed} is not of the operation"
            if created is None:
                group_id = removed.group_id
                assert group_id not in logged.offsets, f"{removed} is removed with offsets"
                assert group_id not in logged.pending.by_group, f"{removed} is in a transaction"
            self.leave_out(removed, effects)
        if created is not None:
            assert created.group_id == operation.key, f"{created} is not of the operation"
            self.add_group(created)

    def leave_out(self, group: GroupLike, effects: Effects[Any]) -> None:
        """See `PartitionState`: remove a group, with the timers that it has left."""
        removed = self.groups.pop(group.group_id)
        assert removed is group, f"{removed} took the place of {group}"
        self.all_groups.groups -= 1
        assert self.all_groups.groups >= len(self.groups), "the count has each group"
        self.types.of(group).removed(group, effects)

    def end_transaction(self, end: TransactionEnd, to: Hashable, now_ms: int) -> Effects[Any]:
        """Write a marker, and commit or drop the pending offsets of its transaction.

        The response is an error code; it is NONE when the marker is durable.
        """
        assert self.state is ShardState.ACTIVE, f"partition {self.partition} is {self.state}"
        replay_marker(self.logged, end.producer_id, commit=end.marker.commit)
        assert self.logged.pending.epoch(end.producer_id) == -1, f"{end} leaves a transaction open"
        self.marker_epochs[end.producer_id] = end.producer_epoch
        operation = Operation(NO_GROUP)
        operation.form, operation.marker = end.form, marker_pair(end.marker)
        operation.completion = MarkerWrite(end.producer_id, end.producer_epoch)
        effects: Effects[Any] = Effects(ErrorCode.NONE)
        effects.operation = operation
        return self.settle(effects, now_ms, end, to)

    def write(self, operation: Operation, now_ms: int) -> Effects[Any]:
        """Carry out an operation for which no request waits."""
        effects: Effects[Any] = Effects()
        effects.operation = operation
        return self.settle(effects, now_ms)

    def complete(self, completion: Any, now_ms: int, effects: Effects[Any]) -> None:
        """Do what follows from a durable append."""
        if isinstance(completion, MarkerWrite):
            if self.marker_epochs.get(completion.producer_id) == completion.producer_epoch:
                del self.marker_epochs[completion.producer_id]
            return
        group: GroupLike = completion.group
        if self.groups.get(group.group_id) is group:
            self.types.of(group).complete(self, group, completion, now_ms, effects)

    def error_response(self, request: Any, error: ErrorCode, version: int) -> Any:
        """See `Shard`."""
        return self.types.error_response(request, error, version)

    def new_group(self, group_id: str, now_ms: int) -> GroupLike:
        """See `PartitionState`."""
        return self.types.of_commits.create(group_id, now_ms)

    def close(self, group: GroupLike, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """See `PartitionState`."""
        self.types.of(group).close(group, error, now_ms, effects)

    def handle(
        self, group: GroupLike, now_ms: int, request: Any, context: RequestContext
    ) -> Effects[Any]:
        """See `PartitionState`."""
        return self.types.of(group).handle(self, group, now_ms, request, context)

    def before_deletion(
        self, group: GroupLike, now_ms: int, context: RequestContext, to: Any
    ) -> Effects[Any] | None:
        """See `PartitionState`."""
        return self.types.of(group).before_deletion(self, group, now_ms, context, to)

    # -- timers ------------------------------------------------------------------------------------

    def timer_fired(self, key: TimerKey, now_ms: int) -> Effects[Any]:
        """Handle the timer of one of the groups.

        A timer of a group that was replaced by one of another type does nothing.
        """
        kind, group_id, member_id = key
        group = self.groups.get(group_id)
        effects: Effects[Any] = Effects()
        if group is None or not group.exists:
            return effects
        group_type = self.types.by_timer[kind]
        if self.types.of(group) is group_type:
            group_type.timer_fired(self, group, kind, member_id, now_ms, effects)
        return self.settle(effects, now_ms)

    def sweep(self, now_ms: int, effects: Effects[Any]) -> None:
        """Remove expired offsets and groups, and arm the next sweep [offsets/sweep].

        Each group is an operation of its own, or several. One call does the work of about a
        millisecond; if groups are left, the next one is armed for the same time.
        """
        assert self.state is ShardState.ACTIVE, f"partition {self.partition} is {self.state}"
        if not self._to_sweep:
            self._to_sweep = list(self.groups)[::-1]
        left = _SWEEP_WORK
        while self._to_sweep and left > 0:
            group_id = self._to_sweep.pop()
            group = self.groups.get(group_id)
            if group is None:
                left -= 1
                continue
            left -= 1 + sum(map(len, self.logged.offsets.get(group_id, {}).values()))
            expired = expire_group(self, group, now_ms)
            if expired is None:
                continue
            left -= _RECORD_WORK * len(expired.records)
            if len(expired.records) >= EXPIRED_TOGETHER:
                # There may be more.
                self._to_sweep.append(group_id)
            for part in split_into_batches(expired):
                effects.absorb(self.write(part, now_ms))
        if self._to_sweep:
            effects.arm(SWEEP_TIMER, str(self.partition), "", now_ms)
        else:
            self._arm_sweep(now_ms, effects)

    def _arm_sweep(self, now_ms: int, effects: Effects[Any]) -> None:
        interval_ms = self.config.offsets_retention_check_interval_ms
        effects.arm(SWEEP_TIMER, str(self.partition), "", now_ms + interval_ms)

    def delete_topic_offsets(
        self, topic: str, topic_id: bytes, now_ms: int
    ) -> Iterator[Effects[Any]]:
        """Delete what groups know of a deleted topic: their offsets [offsets/topic-deletion].

        Requests may be handled between two steps. No client can commit an offset of the topic any
        more, but a transaction may end. The deletion ends early if the partition is given up.
        """
        logged = self.logged
        groups = {**logged.groups_by_topic.get(topic, {}), **logged.pending.by_topic.get(topic, {})}
        for group_id in groups:
            for deletion in delete_topic_offsets(self, group_id, topic, topic_id):
                for part in split_into_batches(deletion):
                    yield self.write(part, now_ms)
                    if self.logged is not logged:
                        return
        for group_type in self.types.types:
            for effects in group_type.topic_deleted(self, topic_id, now_ms):
                yield self.settle(effects, now_ms)
                if self.logged is not logged:
                    return

    # -- load and unload ---------------------------------------------------------------------------

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

    def loaded(self, now_ms: int, effects: Effects[Any]) -> None:
        """Create the groups that the log describes and serve them."""
        self._to_sweep = []
        unused = self._restore_groups()
        for group in self.groups.values():
            self.types.of(group).loaded(self, group, now_ms, effects)
        effects.note(
            "",
            PartitionLoaded(
                at_ms=now_ms,
                partition=self.partition,
                leader_epoch=self.epoch,
                group_count=len(self.groups),
                member_count=sum(group.member_count for group in self.groups.values()),
            ),
        )
        for group in unused:
            for part in split_into_batches(Operation(group.group_id, list(group.tombstones()))):
                effects.absorb(self.write(part, now_ms))
        self._arm_sweep(now_ms, effects)

    def _restore_groups(self) -> list[GroupLike]:
        """Create the groups that the records describe [coordinator/restored-groups].

        Returns:
            Groups whose place another type has, to be removed from the log
            [group-log/two-types].
        """
        logged, groups = self.logged, self.groups
        assert not groups, "a partition is loaded into an empty state"
        unused = []
        for each in self.types.types:
            for group in each.restored(logged.of_types[each.name]):
                other = groups.get(group.group_id)
                if other is None or (other.is_empty and other.protocol_type is None):
                    groups[group.group_id] = group
                else:
                    unused.append(group)
        for group_id in (*logged.offsets, *logged.pending.by_group):
            if group_id not in groups:
                groups[group_id] = self.types.of_commits.create(group_id, None)
        assert len(groups) >= len(logged.offsets), "each group with offsets exists"
        self.all_groups.groups += len(groups)
        assert self.all_groups.groups >= len(groups), "the count has each group"
        self.listing_order.grow(len(groups))
        return unused

    def forget(
        self,
        error: ErrorCode,
        failed: set[str | None],
        now_ms: int,
        effects: Effects[Any],
        state: ShardState,
    ) -> None:
        """Answer every delayed request, and forget all groups; see `Shard`."""
        for group_id, group in self.groups.items():
            code = error if group_id in failed else ErrorCode.NOT_COORDINATOR
            self.types.of(group).close(group, code, now_ms, effects)
            assert not group.exists, f"{group} is closed and exists"
        effects.cancel(SWEEP_TIMER, str(self.partition))
        if self.holds:
            self.forget_waiting(effects)
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
        self.forget_groups(self.types.logged_state())
        self._to_sweep = []
