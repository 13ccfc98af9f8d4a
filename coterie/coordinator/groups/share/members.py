"""A member's session, and its end: it leaves, or is silent [share-groups/member-epochs]."""

from coterie.coordinator.groups.epochs import Bump, instigator_of
from coterie.coordinator.groups.member_facts import removed_fact
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.lookup import existing_group, existing_member
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.sessions import end_session
from coterie.coordinator.groups.share.epochs import bump_epoch
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import ShareMember
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def leave(
    partition: PartitionState,
    now_ms: int,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
) -> Effects[ShareGroupHeartbeatResponse]:
    """Remove a member that leaves.

    Raises:
        Refusal: there is no such group or member, or the group is of another type.
    """
    group = existing_group(partition, request.group_id, ShareGroup)
    member = existing_member(group, request.member_id)
    step = Step(partition, group, now_ms, context)
    if not remove_member(step, member, Bump.LEAVE):
        raise Refusal(LARGE_OPERATION_ERROR)
    step.effects.response = ShareGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    return step.effects


def remove_member(step: Step, member: ShareMember, cause: Bump) -> bool:
    """Write that a member is gone; return whether the records fit a batch.

    No target is computed: the next heartbeat does it. What the member has acquired is not released.
    """
    group, member_id = step.group, member.member_id
    identity = instigator_of(member)
    step.remove(group.member_tombstones(member_id))
    bump_epoch(step, cause, identity)
    if not step.fits():
        return False
    end_session(step, member, TimerKind.SESSION)
    step.note(removed_fact(group, member, identity, cause, step.now_ms))
    return True
