"""The type of consumer groups: how they are restored, what their timers do, how they end."""

from collections.abc import Mapping
from typing import Any

from coterie.coordinator.groups.consumer import classic_members
from coterie.coordinator.groups.consumer.classic_join import join_consumer_group
from coterie.coordinator.groups.consumer.describe import (
    DescribedConsumerGroup,
    describe_error_part,
)
from coterie.coordinator.groups.consumer.downgrade import (
    begin_downgrade,
    downgrade_some,
    is_downgraded_without,
    takes_long,
)
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import CONSUMER
from coterie.coordinator.groups.consumer.leave import leave_group
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.members import (
    finish_removal,
    note_removed,
    remove_members,
    start_session,
    time_revocation,
)
from coterie.coordinator.groups.consumer.records import ConsumerRecords
from coterie.coordinator.groups.consumer.refusal import heartbeat_error_response
from coterie.coordinator.groups.consumer.regexes import resolve_some
from coterie.coordinator.groups.consumer.states import GroupState
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.target import compute_part
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.groups.sessions import has_session_left
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest

_CAUSES = {
    TimerKind.SESSION: Bump.SESSION_EXPIRY,
    TimerKind.REVOCATION: Bump.REVOCATION_TIMEOUT,
    TimerKind.REJOIN: Bump.JOIN_TIMEOUT,
    TimerKind.RESYNC: Bump.SYNC_TIMEOUT,
}


class ConsumerType(RecordedType):
    """Consumer groups: members that reconcile to an assignment of the coordinator."""

    name = CONSUMER
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    timers: frozenset[str] = frozenset(TimerKind)
    long_timers: frozenset[str] = frozenset(
        {TimerKind.REGEX, TimerKind.TARGET, TimerKind.DOWNGRADE}
    )
    member_timers: tuple[str, ...] = tuple(_CAUSES)
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        ConsumerGroupHeartbeatRequest: heartbeat_error_response,
        DescribedConsumerGroup: describe_error_part,
    }

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return ConsumerRecords()

    def create(self, group_id: str, now_ms: int | None) -> ConsumerGroup:  # noqa: ARG002
        """See `GroupType`."""
        return ConsumerGroup(group_id)

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Give every member one session timeout to return [consumer-groups/loaded-timers]."""
        assert group.exists, f"{group} is loaded and was given up"
        assert not group.unlogged, f"{group} is loaded and has records that are not logged"
        assert group.resolution is None, f"{group} is loaded while its topics are matched"
        group.topics = partition.topics
        step = Step(partition, group, now_ms)
        step.effects = effects
        timeout_ms = partition.consumer_settings(group.group_id).session_timeout_ms
        for member in group.members.values():
            start_session(step, member, timeout_ms)
            time_revocation(step, member)
        if takes_long(group) and is_downgraded_without(step, ()):
            # It was becoming a classic one [consumer-groups/large-downgrade].
            begin_downgrade(step)

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """See `RecordedType`."""
        super().removed(group, effects)
        if group.resolution is not None:
            group.resolution = None
            effects.cancel(TimerKind.REGEX, group.group_id)
        if group.downgrade is not None:
            group.downgrade = None
            effects.cancel(TimerKind.DOWNGRADE, group.group_id)

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
        step = Step(partition, group, now_ms)
        step.effects = effects
        if kind == TimerKind.REGEX:
            resolve_some(step)
            return
        if kind == TimerKind.TARGET:
            compute_part(step)
            return
        if kind == TimerKind.DOWNGRADE:
            downgrade_some(step)
            return
        member = group.members.get(member_id)
        if member is not None and _is_over(step, member, TimerKind(kind)):
            cause = _CAUSES[TimerKind(kind)]
            (removed,) = remove_members(step, [member], cause)
            if finish_removal(step):
                note_removed(step, removed, cause)

    def handle(
        self,
        partition: PartitionState,
        group: Any,
        now_ms: int,
        request: Any,
        context: RequestContext,
    ) -> Effects[Any]:
        """Handle a request of a classic member [consumer-groups/classic-members]."""
        step = Step(partition, group, now_ms, context)
        if isinstance(request, JoinGroupRequest):
            return join_consumer_group(step, request)
        if isinstance(request, SyncGroupRequest):
            return classic_members.sync(step, request)
        if isinstance(request, HeartbeatRequest):
            return classic_members.heartbeat(step, request)
        assert isinstance(request, LeaveGroupRequest), request
        return leave_group(step, request)


def _is_over(step: Step, member: ConsumerMember, kind: TimerKind) -> bool:
    """Return whether the time of a member is over; otherwise its timer may be armed again."""
    if kind is TimerKind.SESSION:
        return not has_session_left(step, member, kind)
    if kind is TimerKind.REVOCATION:
        expected = member.revocation is not None and member.revocation is member.current
        member.revocation = None
        return expected
    if kind is TimerKind.REJOIN:
        expected, member.awaits_join = member.awaits_join, False
        return expected
    expected, member.awaits_sync = member.awaits_sync, False
    return expected
