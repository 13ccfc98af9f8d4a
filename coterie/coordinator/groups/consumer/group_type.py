"""The type of consumer groups: how they are restored, what their timers do, how they end."""

from collections.abc import Callable, Mapping
from typing import Any

from coterie.coordinator.groups.consumer import classic_members
from coterie.coordinator.groups.consumer.classic_join import join_consumer_group
from coterie.coordinator.groups.consumer.describe import (
    DescribedConsumerGroup,
)
from coterie.coordinator.groups.consumer.downgrade import (
    begin_downgrade,
    downgrade_some,
    is_downgraded_without,
    takes_long,
)
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.leave import leave_group
from coterie.coordinator.groups.consumer.members import (
    finish_removal,
    note_removed,
    remove_members,
    time_revocation,
)
from coterie.coordinator.groups.consumer.records import ConsumerRecords
from coterie.coordinator.groups.consumer.regexes import resolve_some
from coterie.coordinator.groups.consumer.states import GroupState
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.target import compute_part
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import unavailable_part
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest


class ConsumerType(RecordedType):
    """Consumer groups: members that reconcile to an assignment of the coordinator."""

    group_class = ConsumerGroup
    step_class = Step
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    session_timer: str = TimerKind.SESSION
    causes: Mapping[str, Bump] = {
        TimerKind.SESSION: Bump.SESSION_EXPIRY,
        TimerKind.REVOCATION: Bump.REVOCATION_TIMEOUT,
        TimerKind.REJOIN: Bump.JOIN_TIMEOUT,
        TimerKind.RESYNC: Bump.SYNC_TIMEOUT,
    }
    work: Mapping[str, Callable[[Any], object]] = {
        TimerKind.REGEX: resolve_some,
        TimerKind.TARGET: compute_part,
        TimerKind.DOWNGRADE: downgrade_some,
    }
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        DescribedConsumerGroup: unavailable_part,
    }

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return ConsumerRecords()

    def session_timeout_ms(self, partition: PartitionState, group_id: str) -> int:
        """See `RecordedType` [consumer-groups/timers]."""
        return partition.consumer_settings(group_id).session_timeout_ms

    def member_loaded(self, step: Any, member: Any) -> None:
        """See `RecordedType`."""
        time_revocation(step, member)

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """See `RecordedType`; a large group goes on becoming a classic one."""
        assert group.resolution is None, f"{group} is loaded while its topics are matched"
        super().loaded(partition, group, now_ms, effects)
        step = self.step(partition, group, now_ms, effects)
        if takes_long(group) and is_downgraded_without(step, ()):
            # It was becoming a classic one [consumer-groups/large-downgrade].
            begin_downgrade(step)

    def is_over(self, step: Any, member: Any, kind: str) -> bool:
        """See `RecordedType`."""
        if kind == TimerKind.REJOIN:
            expected, member.awaits_join = member.awaits_join, False
            return bool(expected)
        if kind == TimerKind.RESYNC:
            expected, member.awaits_sync = member.awaits_sync, False
            return bool(expected)
        return super().is_over(step, member, kind)

    def remove(self, step: Any, member: Any, cause: Bump) -> None:
        """See `RecordedType`."""
        (removed,) = remove_members(step, [member], cause)
        if finish_removal(step):
            note_removed(step, removed, cause)

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """See `RecordedType`."""
        super().removed(group, effects)
        if group.resolution is not None:
            group.resolution = None
            effects.cancel(TimerKind.REGEX, group.group_id)
        if group.downgrade is not None:
            group.downgrade = None
            effects.cancel(TimerKind.DOWNGRADE, group.group_id)

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
