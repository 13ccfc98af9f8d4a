"""What types of groups have in common whose groups are what their records add up to."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.coordinator.groups.classic.leave import leave_response, members_of
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.group_type import GroupType
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.groups.recorded.revocation import is_revocation_over
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.sessions import has_session_left, start_session
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.refusals import refusal


class RecordedType(GroupType):
    """A type of groups whose members send heartbeats.

    Attributes:
        group_class: the class of its groups.
        step_class: the class of their steps.
        session_timer: the kind of the timer of a member's session.
        causes: by the kind of a timer of a member, why the member is removed when it fires.
        work: by the kind of a timer of a group, what is done when it fires.
        target_timer: the one that starts each part of a large target.
    """

    group_class: type[RecordedGroup[Any]]
    step_class: type[TentativeStep[Any]]
    session_timer: str
    causes: Mapping[str, Bump]
    work: Mapping[str, Callable[[Any], object]]
    target_timer: str

    def __init__(self) -> None:
        """Take over what follows from the class of its groups, and from its timers."""
        self.name = self.group_class.TYPE
        self.timers = frozenset((*self.causes, *self.work))
        self.long_timers = frozenset(self.work)

    def records(self) -> GroupRecords:
        """See `GroupType`."""
        return RecordedGroups(self.group_class)

    def restored(self, records: Any) -> Iterable[GroupLike]:
        """See `GroupType`: the groups exist already."""
        assert isinstance(records, RecordedGroups), records
        return list(records.groups.values())

    def create(self, group_id: str, now_ms: int | None) -> GroupLike:  # noqa: ARG002
        """See `GroupType`."""
        return self.group_class(group_id)

    def session_timeout_ms(self, partition: PartitionState, group_id: str) -> int:
        """Return how long the members of a group may be silent."""
        raise NotImplementedError

    def step(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> Any:
        """Return a step of a group that no request has caused."""
        step = self.step_class(partition, group, now_ms)
        step.effects = effects
        return step

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Give every member one session timeout to return [consumer-groups/timers]."""
        assert group.exists, f"{group} is loaded and was given up"
        assert not group.unlogged, f"{group} is loaded and has records that are not logged"
        group.topics = partition.topics
        step = self.step(partition, group, now_ms, effects)
        timeout_ms = self.session_timeout_ms(partition, group.group_id)
        for member in group.members.values():
            start_session(step, member, self.session_timer, timeout_ms)
            self.member_loaded(step, member)

    def member_loaded(self, step: Any, member: Any) -> None:
        """Let more timers of a loaded member begin than that of its session."""

    def timer_fired(
        self,
        partition: PartitionState,
        group: Any,
        kind: str,
        member_id: str,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """See `GroupType`: the time of a member is over, or a part of some work is due."""
        assert group.exists, f"a timer of {group} fires, which was given up"
        step = self.step(partition, group, now_ms, effects)
        if kind in self.work:
            self.work[kind](step)
            return
        member = group.members.get(member_id)
        if member is not None and self.is_over(step, member, kind):
            self.remove(step, member, self.causes[kind])

    def is_over(self, step: Any, member: Any, kind: str) -> bool:
        """Return whether the time of a member is over; otherwise its timer may be armed again."""
        if kind == self.session_timer:
            return not has_session_left(step, member, kind)
        return is_revocation_over(member)

    def remove(self, step: Any, member: Any, cause: Bump) -> None:
        """Remove a member whose time is over."""
        raise NotImplementedError

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """Cancel the timers of a group without members, or of one that was replaced."""
        for member_id in group.members:
            for kind in self.causes:
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
