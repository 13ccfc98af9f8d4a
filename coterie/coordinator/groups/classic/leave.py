"""LeaveGroup: members, pending members and, for administrators, static members leave.

One request may list several [sessions/leave]; together they cost at most one rebalance
[sessions/leave-batch].
"""

from collections.abc import Sequence

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import Removal, remove_member
from coterie.coordinator.groups.classic.rebalance import (
    Cause,
    Instigator,
    maybe_complete_join,
    prepare_rebalance,
)
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

# From this version on a request lists members, and each has its own error [sessions/leave].
_MANY_MEMBERS_SINCE = 3


def leave(
    partition: PartitionState, now_ms: int, request: LeaveGroupRequest, context: RequestContext
) -> Effects[LeaveGroupResponse]:
    """Handle a LeaveGroup that passed the checks of the service."""
    version = context.version
    listed = members_of(request, version)
    group = partition.groups.get(request.group_id)
    if group is None:
        return Effects(leave_response(version, listed, [ErrorCode.UNKNOWN_MEMBER_ID] * len(listed)))
    if not isinstance(group, Group):
        return partition.handle(group, now_ms, request, context)
    if group.state is GroupState.DEAD:
        return Effects(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    step = Step(partition, group, now_ms, Effects(), context)
    errors: list[ErrorCode] = []
    instigator: Instigator | None = None
    cause = Cause.LEAVE
    for each in listed:
        error, member = _leave_one(step, each)
        errors.append(error)
        if member is not None and instigator is None:
            instigator = Instigator(member, each.reason, requester=_requester(each, context))
            cause = Cause.LEAVE if each.member_id else Cause.ADMIN_REMOVAL
    step.effects.response = leave_response(version, listed, errors)
    if ErrorCode.NONE in errors:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare_rebalance(step, cause, instigator)
        else:
            maybe_complete_join(step)
    assert instigator is None or group.state is not GroupState.STABLE, f"{group} lost a member"
    return step.effects


def _leave_one(step: Step, each: LeaveGroupRequestMember) -> tuple[ErrorCode, Member | None]:
    """Return the error of one listed member, and the member if it was removed."""
    group = step.group
    member_id = each.member_id
    if not member_id:
        # An administrator names the instance only.
        holder = group.static_members.get(each.group_instance_id or "")
        if each.group_instance_id is None or holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        member_id = holder
    elif member_id in group.pending_joins:
        assert member_id not in group.members, f"{member_id} is pending and a member of {group}"
        group.pending_joins.discard(member_id)
        step.cancel(TimerKind.PENDING, member_id)
        return ErrorCode.NONE, None
    else:
        error = group.identity_error(member_id, each.group_instance_id)
        if error:
            if error is ErrorCode.FENCED_INSTANCE_ID:
                note_fenced(step, member_id, each.group_instance_id, "LeaveGroup")
            return error, None
    member = group.members[member_id]
    cause = Removal.LEAVE if each.member_id else Removal.ADMIN_REMOVAL
    remove_member(step, member, cause, each.reason, _requester(each, step.context))
    return ErrorCode.NONE, member


def _requester(each: LeaveGroupRequestMember, context: RequestContext) -> RequestContext | None:
    """Return the sender of the request if it is not the member itself."""
    return None if each.member_id else context


def members_of(request: LeaveGroupRequest, version: int) -> Sequence[LeaveGroupRequestMember]:
    """Return the members that a request lists; an older one names a single member."""
    if version < _MANY_MEMBERS_SINCE:
        return [LeaveGroupRequestMember(member_id=request.member_id)]
    return request.members


def leave_response(
    version: int, listed: Sequence[LeaveGroupRequestMember], errors: Sequence[ErrorCode]
) -> LeaveGroupResponse:
    """Return the response with an error for each listed member."""
    if version < _MANY_MEMBERS_SINCE:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            LeaveGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=error,
            )
            for each, error in zip(listed, errors, strict=True)
        ],
    )
