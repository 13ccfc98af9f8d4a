"""LeaveGroup: members, pending ids and, by an administrator, static instances leave, several at
once (spec section 7).
"""

from typing import TYPE_CHECKING

from coordinator.effects import Effects, TimerKind
from coordinator.group import Group, GroupState, Member
from coordinator.identity import identity_error
from coordinator.rebalance import Cause, maybe_complete_join, prepare_rebalance
from coordinator.removal import remove_member
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

if TYPE_CHECKING:
    from coordinator.shard import Shard

# From this version on one request may name several members, and each gets its own error.
_MANY_MEMBERS_SINCE = 3


def leave(shard: "Shard", now_ms: int, request: LeaveGroupRequest, version: int) -> Effects:
    """Handle a LeaveGroup that passed the service's checks."""
    if version < _MANY_MEMBERS_SINCE:
        listed = [LeaveGroupRequestMember(member_id=request.member_id)]
    else:
        listed = request.members
    group = shard.groups.get(request.group_id)
    if group is None:
        return Effects(_answer(version, listed, [ErrorCode.UNKNOWN_MEMBER_ID] * len(listed)))
    if group.state is GroupState.DEAD:
        return Effects(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    effects = Effects()
    errors: list[ErrorCode] = []
    gone: Member | None = None
    cause = Cause.LEAVE
    reason = None
    for each in listed:
        error, member = _leave_one(group, each, now_ms, effects)
        errors.append(error)
        if member is not None and gone is None:
            gone, reason = member, each.reason
            cause = Cause.LEAVE if each.member_id else Cause.ADMIN_REMOVAL
    effects.answer = _answer(version, listed, errors)
    if ErrorCode.NONE in errors:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare_rebalance(shard, group, now_ms, effects, cause, gone, reason)
        else:
            maybe_complete_join(group, now_ms, effects)
    return effects


def _leave_one(
    group: Group, each: LeaveGroupRequestMember, now_ms: int, effects: Effects
) -> tuple[ErrorCode, Member | None]:
    member_id = each.member_id
    if not member_id:
        # An administrator knows the instance only.
        holder = group.static_members.get(each.group_instance_id or "")
        if each.group_instance_id is None or holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        member_id = holder
    elif member_id in group.pending_joins:
        group.pending_joins.discard(member_id)
        effects.cancel(TimerKind.PENDING, group.group_id, member_id)
        return ErrorCode.NONE, None
    else:
        error = identity_error(group, member_id, each.group_instance_id)
        if error:
            return error, None
    member = group.members[member_id]
    remove_member(group, member, now_ms, effects, each.reason or "leave")
    return ErrorCode.NONE, member


def _answer(
    version: int, listed: list[LeaveGroupRequestMember], errors: list[ErrorCode]
) -> LeaveGroupResponse:
    """Before version 3 the one member's error stands at the top."""
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
