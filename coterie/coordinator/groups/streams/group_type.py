"""The type of streams groups: how they are restored, what their timers do, how they end."""

from collections.abc import Callable, Mapping
from typing import Any

from coterie.coordinator.groups.classic.join_of_empty import join_empty
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import unavailable_part
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.groups.streams.describe import (
    DescribedStreamsGroup,
)
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.members import (
    remove_member,
    time_revocation,
)
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

    group_class = StreamsGroup
    step_class = Step
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    session_timer: str = TimerKind.SESSION
    causes: Mapping[str, Bump] = {
        TimerKind.SESSION: Bump.SESSION_EXPIRY,
        TimerKind.REVOCATION: Bump.REVOCATION_TIMEOUT,
    }
    work: Mapping[str, Callable[[Any], object]] = {
        TimerKind.TARGET: compute_part,
        TimerKind.DELAY: end_delay,
    }
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        StreamsGroupHeartbeatRequest: heartbeat_error,
        DescribedStreamsGroup: unavailable_part,
    }

    def session_timeout_ms(self, partition: PartitionState, group_id: str) -> int:
        """See `RecordedType` [streams-groups/timers]."""
        return partition.streams_settings(group_id).session_timeout_ms

    def member_loaded(self, step: Any, member: Any) -> None:
        """See `RecordedType`."""
        time_revocation(step, member)

    def remove(self, step: Any, member: Any, cause: Bump) -> None:
        """See `RecordedType`."""
        remove_member(step, member, cause)

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
