"""The type of share groups: how they are restored, what their timers do, how they end."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import unavailable_part
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.coordinator.groups.share.describe import DescribedShareGroup
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.initialization import (
    delete_state_first,
    forget_topic,
)
from coterie.coordinator.groups.share.members import remove_member
from coterie.coordinator.groups.share.refusal import offsets_error
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


class ShareType(RecordedType):
    """Share groups: members that are assigned partitions together."""

    group_class = ShareGroup
    step_class = Step
    states: tuple[str, ...] = tuple(state.value for state in GroupState)
    session_timer: str = TimerKind.SESSION
    causes: Mapping[str, Bump] = {TimerKind.SESSION: Bump.SESSION_EXPIRY}
    work: Mapping[str, Callable[[Any], object]] = {TimerKind.TARGET: compute_part}
    target_timer: str = TimerKind.TARGET
    error_responses: Mapping[type, ErrorResponse] = {
        DescribedShareGroup: unavailable_part,
        AlterShareGroupOffsetsRequest: offsets_error,
        DeleteShareGroupOffsetsRequest: offsets_error,
    }

    def session_timeout_ms(self, partition: PartitionState, group_id: str) -> int:
        """See `RecordedType` [share-groups/session]."""
        return partition.share_settings(group_id).session_timeout_ms

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """See `RecordedType`; partitions begin to be initialized anew."""
        group.initializing_since = dict.fromkeys(group.state_partitions.initializing, now_ms)
        super().loaded(partition, group, now_ms, effects)

    def remove(self, step: Any, member: Any, cause: Bump) -> None:
        """See `RecordedType`."""
        remove_member(step, member, cause)

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """See `GroupType`; what waits for the share coordinator is delayed."""
        RecordedType.close(self, group, error, now_ms, effects)
        for request in list(group.waiting):
            refuse_waiting(request, error, effects)

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
