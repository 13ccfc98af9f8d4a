"""Heartbeat, and what happens to members that stay silent.

Heartbeats are the most frequent requests. One stores a deadline on the member and is answered with
one of a few shared values; it touches no timer and makes no record and no event.

A member's entry in the timing wheel therefore may fire before its session ends; it is then armed
again [sessions/session-timeout]. If it fires while a join or sync of the member is delayed it
is not armed again, because the response to that request starts the session
[sessions/session-start].
"""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import Removal, remove_member
from coterie.coordinator.groups.classic.rebalance import (
    Cause,
    Instigator,
    complete_join,
    prepare_rebalance,
)
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.sessions import has_session_left
from coterie.coordinator.groups.step import NO_REQUEST
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.journal_records import PendingMemberExpired

# Shared by all requests: a response is not changed when it is sent.
RESPONSES: dict[ErrorCode, Effects[HeartbeatResponse]] = {
    error: Effects(HeartbeatResponse(error_code=error)) for error in ErrorCode
}

_ALIVE = RESPONSES[ErrorCode.NONE]
_REBALANCING = RESPONSES[ErrorCode.REBALANCE_IN_PROGRESS]


def heartbeat(
    partition: PartitionState, now_ms: int, request: HeartbeatRequest
) -> Effects[HeartbeatResponse]:
    """Start a member's session anew and answer whether its group is rebalancing.

    [sessions/heartbeat]
    """
    group = partition.groups.get(request.group_id)
    if group is None:
        return RESPONSES[ErrorCode.UNKNOWN_MEMBER_ID]
    if type(group) is not Group:
        return partition.handle(group, now_ms, request, NO_REQUEST)
    state = group.state
    if state is GroupState.DEAD:
        return RESPONSES[ErrorCode.COORDINATOR_NOT_AVAILABLE]
    member_id = request.member_id
    member = group.members.get(member_id)
    if member is None or request.group_instance_id is not None:
        error = group.identity_error(member_id, request.group_instance_id)
        if error:
            return RESPONSES[error]
        assert member is not None
    if request.generation_id != group.generation_id:
        return RESPONSES[ErrorCode.ILLEGAL_GENERATION]
    member.deadline_ms = now_ms + member.session_timeout_ms
    return _REBALANCING if state is GroupState.PREPARING_REBALANCE else _ALIVE


# -- timers ----------------------------------------------------------------------------------------


def expire_pending(step: Step, member_id: str) -> None:
    """Drop a pending member that has not joined in time [joining/pending-member]."""
    group = step.group
    if member_id not in group.pending_joins:
        return
    assert member_id not in group.members, f"{member_id} is pending and a member of {group}"
    group.pending_joins.discard(member_id)
    expired = PendingMemberExpired(
        at_ms=step.now_ms,
        member_id=member_id,
        state=group.state.value,
        generation_id=group.generation_id,
    )
    step.note(expired)
    _complete_if_all_joined(step)


def expire_session(step: Step, member: Member) -> None:
    """Handle a member's timer: arm it again, leave it to a delayed request, or remove the member.

    [sessions/session-timeout]
    """
    assert step.group.members.get(member.member_id) is member, "only a member has a session"
    if has_session_left(step, member, TimerKind.SESSION):
        return
    if not member.is_new and (member.delayed_join is not None or member.delayed_sync is not None):
        return
    state = step.group.state
    remove_member(step, member, Removal.SESSION_EXPIRY)
    if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(step, Cause.SESSION_EXPIRY, Instigator(member))
    else:
        _complete_if_all_joined(step)
    assert step.group.state is not GroupState.STABLE, f"{step.group} lost a member"


def _complete_if_all_joined(step: Step) -> None:
    # Unlike other events this one also ends the initial delay [joining/initial-delay-expiry].
    group = step.group
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        step.cancel(TimerKind.JOIN)
        complete_join(step)
