"""What types of groups have in common whose groups are what their records add up to."""

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.groups.classic.leave import leave_response, members_of
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.group_type import GroupType
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.refusals import refusal


class RecordedType(GroupType):
    """A type of groups whose members send heartbeats.

    Attributes:
        member_timers: the kinds of the timers of members.
        target_timer: the kind of the timer that starts each part of a large target.
    """

    member_timers: tuple[str, ...] = ()
    target_timer: str

    def restored(self, records: Any) -> Iterable[GroupLike]:
        """See `GroupType`: the groups exist already."""
        assert isinstance(records, RecordedGroups), records
        return list(records.groups.values())

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """Cancel the timers of a group without members, or of one that was replaced."""
        for member_id in group.members:
            for kind in self.member_timers:
                effects.cancel(kind, group.group_id, member_id)
        if group.computation is not None:
            group.computation = None
            effects.cancel(self.target_timer, group.group_id)

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:  # noqa: ARG002
        """See `GroupType`; no request of such a group is delayed by itself."""
        assert not group.is_gone, f"{group} is given up twice"
        self.removed(group, effects)
        group.is_gone = True

    def handle(
        self,
        partition: PartitionState,  # noqa: ARG002 - as `GroupType` has it
        group: Any,  # noqa: ARG002 - as above
        now_ms: int,  # noqa: ARG002 - as above
        request: Any,
        context: RequestContext,
    ) -> Effects[Any]:
        """Refuse a request of the classic protocol [share-groups/other-types]."""
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(request, LeaveGroupRequest):
            listed = members_of(request, context.version)
            return Effects(leave_response(context.version, listed, [error] * len(listed)))
        if isinstance(request, JoinGroupRequest):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return Effects(refusal(request, error, context.version))
