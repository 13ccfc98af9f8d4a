"""Leaving a consumer group: a heartbeat of epoch -1 or -2, and LeaveGroup.

The epoch that the member had does not matter [consumer-groups/leave].
"""

from coterie.coordinator.groups.classic.leave import leave_response, members_of
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.identity import static_member
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.consumer.members import (
    finish_removal,
    note_removed,
    remove_members,
)
from coterie.coordinator.groups.consumer.records import current_value
from coterie.coordinator.groups.consumer.states import STATIC_LEAVE_EPOCH
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.lookup import existing_group, existing_member
from coterie.coordinator.groups.recorded.revocation import cancel_revocation
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import StaticMemberLeft
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)

# -- by heartbeat ----------------------------------------------------------------------------------


def leave(
    partition: PartitionState,
    now_ms: int,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
) -> Effects[ConsumerGroupHeartbeatResponse]:
    """Remove a member, or keep the place of a static member that leaves for a while.

    Raises:
        Refusal: there is no such group or member, the group is of another type, another member has
            the instance id, or the records do not fit a batch.
    """
    assert request.member_epoch < 0, f"a heartbeat of epoch {request.member_epoch} does not leave"
    group = existing_group(partition, request.group_id, ConsumerGroup)
    member = (
        existing_member(group, request.member_id)
        if request.instance_id is None
        else static_member(group, request.member_id, request.instance_id)
    )
    step = Step(partition, group, now_ms, context)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(step, member)
        if not step.fits():
            raise Refusal(LARGE_OPERATION_ERROR)
        cancel_revocation(step, member, TimerKind.REVOCATION)
        assert member.instance_id is not None, f"{member} is not static"
        step.note(
            StaticMemberLeft(
                at_ms=now_ms,
                group_instance_id=member.instance_id,
                member_id=member.member_id,
                client_id=member.client_id,
                epoch=group.epoch,
                kept_ms=max(0, member.deadline_ms - now_ms),
            )
        )
    else:
        (removed,) = remove_members(step, [member], Bump.LEAVE)
        if not finish_removal(step):
            raise Refusal(LARGE_OPERATION_ERROR)
        note_removed(step, removed, Bump.LEAVE)
    step.effects.response = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    return step.effects


def _leave_for_a_while(step: Step, member: ConsumerMember) -> None:
    """Write that a static member is away: it keeps its partitions until its session ends."""
    group = step.group
    key = ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group.group_id, member_id=member.member_id
    )
    assigned: Owned = {
        topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()
    }
    step.set(
        key,
        current_value(STATIC_LEAVE_EPOCH, member.previous_epoch, member.state, assigned, {}),
    )
    assert member.epoch == STATIC_LEAVE_EPOCH, f"{member} is away"
    assert not member.pending, f"{member} is away and is asked for partitions"
    assert not group.is_settled(member), f"{group} does not wait for a member that is away"


# -- by LeaveGroup ---------------------------------------------------------------------------------


def leave_group(step: Step, request: LeaveGroupRequest) -> Effects[LeaveGroupResponse]:
    """Handle a LeaveGroup of an administrator, or of a classic member.

    All members that are valid leave in one operation [consumer-groups/leave].
    """
    version = step.context.version
    listed = members_of(request, version)
    leaving: dict[str, LeaveGroupRequestMember] = {}
    errors: list[ErrorCode] = []
    for each in listed:
        error, member_id = _listed_member(step.group, each)
        errors.append(error)
        if not error:
            leaving.setdefault(member_id, each)
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            note_fenced(step, each.member_id, each.group_instance_id, "LeaveGroup")
    assert len(errors) == len(listed), "each listed member has an error"
    group = step.group
    members = [group.members[member_id] for member_id in leaving]
    if members:
        by_admin = not leaving[members[0].member_id].member_id
        cause = Bump.ADMIN_REMOVAL if by_admin else Bump.LEAVE
        removed = remove_members(step, members, cause)
        if not finish_removal(step):
            return Effects(LeaveGroupResponse(error_code=LARGE_OPERATION_ERROR))
        for gone in removed:
            each = leaving[gone.member.member_id]
            by_admin = not each.member_id
            note_removed(
                step,
                gone,
                Bump.ADMIN_REMOVAL if by_admin else Bump.LEAVE,
                each.reason,
                step.context if by_admin else None,
            )
    step.effects.response = leave_response(version, listed, errors)
    return step.effects


def _listed_member(group: ConsumerGroup, each: LeaveGroupRequestMember) -> tuple[ErrorCode, str]:
    """Return the error of one listed member, and its id."""
    if each.group_instance_id is None:
        known = each.member_id in group.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID, each.member_id
    holder = group.static_members.get(each.group_instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, ""
    if each.member_id and each.member_id != holder:
        return ErrorCode.FENCED_INSTANCE_ID, ""
    return ErrorCode.NONE, holder
