"""The type of streams groups: how they are restored, what their timers do, how they end."""

from collections.abc import Mapping
from typing import Any

from coterie.coordinator.groups.classic.join_of_empty import join_empty
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.groups.sessions import has_session_left, start_session
from coterie.coordinator.groups.streams.describe import (
    DescribedStreamsGroup,
    describe_error_part,
)
from coterie.coordinator.groups.streams.group import STREAMS, StreamsGroup
from coterie.coordinator.groups.streams.members import (
    remove_member,
    time_revocation,
)
from coterie.coordinator.groups.streams.records import StreamsRecords
from coterie.coordinator.groups.streams.refusal import heartbeat_error_response
from coterie.coordinator.groups.streams.states import GroupState
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.groups.streams.target import compute_part, end_delay
from coterie.coordinator.groups.streams.timers import TimerKind
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class StreamsType(RecordedType):
    """Streams groups: members that are assigned the tasks of a topology."""

    name = STREAMS
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    timers: frozenset[str] = frozenset(TimerKind)
    long_timers: frozenset[str] = frozenset({TimerKind.TARGET, TimerKind.DELAY})
    member_timers: tuple[str, ...] = (TimerKind.SESSION, TimerKind.REVOCATION)
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        StreamsGroupHeartbeatRequest: heartbeat_error_response,
        DescribedStreamsGroup: describe_error_part,
    }

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return StreamsRecords()

    def create(self, group_id: str, now_ms: int | None) -> StreamsGroup:  # noqa: ARG002
        """See `GroupType`."""
        return StreamsGroup(group_id)

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Give every member one session timeout to return [streams-groups/timers]."""
        group.topics = partition.topics
        step = Step(partition, group, now_ms)
        step.effects = effects
        timeout_ms = partition.streams_settings(group.group_id).session_timeout_ms
        for member in group.members.values():
            start_session(step, member, TimerKind.SESSION, timeout_ms)
            time_revocation(step, member)

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """See `RecordedType`."""
        super().removed(group, effects)
        if group.delay_ends_ms:
            group.delay_ends_ms = 0
            effects.cancel(TimerKind.DELAY, group.group_id)

    def handle(
        self,
        partition: PartitionState,
        group: Any,
        now_ms: int,
        request: Any,
        context: RequestContext,
    ) -> Effects[Any]:
        """Let a classic member join in the place of an empty group [streams-groups/other-types]."""
        if isinstance(request, JoinGroupRequest) and group.is_empty:
            return join_empty(partition, group, group.tombstones(), now_ms, request, context)
        return super().handle(partition, group, now_ms, request, context)

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
        step = Step(partition, group, now_ms)
        step.effects = effects
        if kind == TimerKind.TARGET:
            compute_part(step)
            return
        if kind == TimerKind.DELAY:
            end_delay(step)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if kind == TimerKind.SESSION:
            if not has_session_left(step, member, kind):
                remove_member(step, member, Bump.SESSION_EXPIRY)
            return
        is_waiting = member.revocation is not None and member.revocation is member.current
        member.revocation = None
        if is_waiting:
            remove_member(step, member, Bump.REVOCATION_TIMEOUT)
