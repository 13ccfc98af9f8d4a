"""The type of share groups: how they are restored, what their timers do, how they end."""

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.groups.sessions import has_session_left, start_session
from coterie.coordinator.groups.share.describe import DescribedShareGroup, describe_error_part
from coterie.coordinator.groups.share.group import SHARE, ShareGroup
from coterie.coordinator.groups.share.initialization import (
    delete_state_first,
    forget_topic,
)
from coterie.coordinator.groups.share.members import remove_member
from coterie.coordinator.groups.share.records import ShareRecords
from coterie.coordinator.groups.share.refusal import heartbeat_error_response, offsets_error
from coterie.coordinator.groups.share.state_answers import refuse_waiting
from coterie.coordinator.groups.share.states import GroupState
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.groups.share.target import compute_part
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from coterie.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareType(RecordedType):
    """Share groups: members that are assigned partitions together."""

    name = SHARE
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    timers: frozenset[str] = frozenset(TimerKind)
    long_timers: frozenset[str] = frozenset({TimerKind.TARGET})
    member_timers: tuple[str, ...] = (TimerKind.SESSION,)
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        ShareGroupHeartbeatRequest: heartbeat_error_response,
        DescribedShareGroup: describe_error_part,
        AlterShareGroupOffsetsRequest: offsets_error,
        DeleteShareGroupOffsetsRequest: offsets_error,
    }

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return ShareRecords()

    def create(self, group_id: str, now_ms: int | None) -> ShareGroup:  # noqa: ARG002
        """See `GroupType`."""
        return ShareGroup(group_id)

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Give every member one session timeout to return [share-groups/session]."""
        group.topics = partition.topics
        group.initializing_since = dict.fromkeys(group.state_partitions.initializing, now_ms)
        step = Step(partition, group, now_ms)
        step.effects = effects
        timeout_ms = partition.share_settings(group.group_id).session_timeout_ms
        for member in group.members.values():
            start_session(step, member, TimerKind.SESSION, timeout_ms)

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """See `GroupType`; what waits for the share coordinator is delayed."""
        RecordedType.close(self, group, error, now_ms, effects)
        for request in list(group.waiting):
            refuse_waiting(request, error, effects)

    def timer_fired(
        self,
        partition: PartitionState,
        group: Any,
        kind: str,
        member_id: str,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """See `GroupType`: a member was silent for too long, or a large target is computed."""
        step = Step(partition, group, now_ms)
        step.effects = effects
        if kind == TimerKind.TARGET:
            compute_part(step)
            return
        member = group.members.get(member_id)
        if member is not None and not has_session_left(step, member, kind):
            remove_member(step, member, Bump.SESSION_EXPIRY)

    def complete(
        self,
        partition: PartitionState,  # noqa: ARG002 - as `GroupType` has it
        group: Any,  # noqa: ARG002 - as above
        completion: Any,
        now_ms: int,  # noqa: ARG002 - as above
        effects: Effects[Any],
    ) -> None:
        """Ask the share coordinator: what was written about it is durable."""
        effects.request(completion)

    def late(
        self,
        partition: PartitionState,  # noqa: ARG002 - as `GroupType` has it
        group: Any,  # noqa: ARG002 - as above
        completion: Any,
        error: ErrorCode,
        now_ms: int,  # noqa: ARG002 - as above
        effects: Effects[Any],
    ) -> None:
        """Refuse what a client has asked for, if its record is not acknowledged in time."""
        refuse_waiting(completion, error, effects)

    def before_deletion(
        self,
        partition: PartitionState,
        group: Any,
        now_ms: int,
        context: RequestContext,
        to: Any,
    ) -> Effects[Any] | None:
        """See `GroupType`."""
        return delete_state_first(partition, group, now_ms, context, to)

    def topic_deleted(
        self, partition: PartitionState, topic_id: bytes, now_ms: int
    ) -> Iterator[Effects[Any]]:
        """See `GroupType`."""
        return forget_topic(partition, topic_id, now_ms)
