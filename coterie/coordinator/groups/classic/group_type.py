"""The type of classic groups: how they are restored, what their timers do, how they end."""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import restore
from coterie.coordinator.groups.classic.heartbeat import expire_pending, expire_session
from coterie.coordinator.groups.classic.members import start_session
from coterie.coordinator.groups.classic.rebalance import Cause, join_timer_fired, prepare_rebalance
from coterie.coordinator.groups.classic.records import CLASSIC, ClassicRecords
from coterie.coordinator.groups.classic.responses import ERROR_RESPONSES, join_error, sync_error
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.static_member import (
    ReplacementWrite,
    replacement_late,
    replacement_stored,
)
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.sync import (
    AssignmentWrite,
    assignment_late,
    assignment_stored,
    sync_timer_fired,
)
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.group_type import GroupType
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode


class ClassicType(GroupType):
    """Classic groups: members that join, elect a leader and receive its assignment."""

    name = CLASSIC
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    timers: frozenset[str] = frozenset(TimerKind)
    error_responses: Mapping[type, ErrorResponse] = ERROR_RESPONSES

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return ClassicRecords()

    def restored(self, records: Any) -> Iterable[Group]:
        """See `GroupType`."""
        assert isinstance(records, ClassicRecords), records
        return [restore(group_id, value) for group_id, value in records.generations.items()]

    def create(self, group_id: str, now_ms: int | None) -> Group:
        """See `GroupType`; without members it is a simple group [offsets/unknown-group-commit]."""
        return Group(group_id, now_ms)

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Give every member one session timeout to return [coordinator/restored-groups].

        A group that is too large starts a rebalance.
        """
        assert group.is_empty == (not group.members), f"{group} is loaded in another state"
        assert not group.awaiting_joins, f"{group} is loaded with delayed joins"
        step = Step(partition, group, now_ms, effects)
        for member in group.members.values():
            start_session(step, member, member.session_timeout_ms)
        if len(group.members) > partition.config.group_max_size:
            following: Effects[Any] = Effects()
            prepare_rebalance(Step(partition, group, now_ms, following), Cause.LOAD)
            effects.absorb(partition.settle(following, now_ms))

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """Cancel all timers of a group; an Empty one has only those of pending members."""
        assert not group.awaiting_joins, f"{group} is removed with delayed joins"
        if not group.exists:
            # `close` has cancelled them.
            return
        _cancel_member_timers(group, effects)
        if group.state is not GroupState.EMPTY:
            _cancel_phase_timers(group, effects)

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """Answer the delayed requests of a group that ceases to exist and cancel its timers."""
        assert error, "a request that is given up is answered with an error"
        for member in group.members.values():
            join_to = group.take_delayed_join(member)
            if join_to is not None:
                effects.reply(join_to, join_error(error, member.member_id))
            sync_to = member.take_delayed_sync()
            if sync_to is not None:
                effects.reply(sync_to, sync_error(error))
        assert not group.awaiting_joins, f"{group} is given up with delayed joins"
        _cancel_member_timers(group, effects)
        _cancel_phase_timers(group, effects)
        group.transition(GroupState.DEAD, now_ms)

    def timer_fired(
        self,
        partition: PartitionState,
        group: Any,
        kind: str,
        member_id: str,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """See `GroupType`."""
        assert group.exists, f"a timer of {group} fires, which was given up"
        step = Step(partition, group, now_ms, effects)
        if kind == TimerKind.SESSION:
            member = group.members.get(member_id)
            if member is not None:
                expire_session(step, member)
        elif kind == TimerKind.PENDING:
            expire_pending(step, member_id)
        elif kind == TimerKind.JOIN:
            join_timer_fired(step)
        else:
            assert kind == TimerKind.SYNC, kind
            sync_timer_fired(step)

    def complete(
        self,
        partition: PartitionState,
        group: Any,
        completion: Any,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """See `GroupType`."""
        assert completion.group is group, f"{completion} is of another group than {group}"
        step = Step(partition, group, now_ms, effects)
        if type(completion) is AssignmentWrite:
            assignment_stored(step, completion)
        else:
            assert type(completion) is ReplacementWrite, completion
            replacement_stored(step, completion)

    def late(
        self,
        partition: PartitionState,
        group: Any,
        completion: Any,
        error: ErrorCode,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """See `GroupType`."""
        assert completion.group is group, f"{completion} is of another group than {group}"
        step = Step(partition, group, now_ms, effects)
        if type(completion) is AssignmentWrite:
            assignment_late(step, completion, error)
        else:
            assert type(completion) is ReplacementWrite, completion
            replacement_late(step, completion, error)


def _cancel_member_timers(group: Group, effects: Effects[Any]) -> None:
    for member_id in group.members:
        effects.cancel(TimerKind.SESSION, group.group_id, member_id)
    for member_id in sorted(group.pending_joins):
        effects.cancel(TimerKind.PENDING, group.group_id, member_id)


def _cancel_phase_timers(group: Group, effects: Effects[Any]) -> None:
    effects.cancel(TimerKind.JOIN, group.group_id)
    effects.cancel(TimerKind.SYNC, group.group_id)
