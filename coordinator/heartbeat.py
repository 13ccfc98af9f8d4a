"""Heartbeat: the request there is most of (spec section 6).

It stores a deadline and answers; no timer, no record, no event. The answers are the same few values
every time, made once.
"""

from coterie.coordinator.effects import Effects, TimerKind
from coterie.coordinator.group import Group, GroupState, Member
from coterie.coordinator.members import Removal, identity_error, remove_member
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.rebalance import Cause, Instigator, complete_join, prepare_rebalance
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.journal_records import PendingMemberExpired

# Shared by all callers: an answer is not changed by whoever sends it.
ANSWERS: dict[ErrorCode, Effects] = {
    error: Effects(HeartbeatResponse(error_code=error)) for error in ErrorCode
}

_ALIVE = ANSWERS[ErrorCode.NONE]
_REBALANCING = ANSWERS[ErrorCode.REBALANCE_IN_PROGRESS]


def heartbeat(partition: PartitionState, now_ms: int, request: HeartbeatRequest) -> Effects:
    """Keep a member's session alive and tell it whether its group is rebalancing."""
    group = partition.groups.get(request.group_id)
    if group is None:
        return ANSWERS[ErrorCode.UNKNOWN_MEMBER_ID]
    state = group.state
    if state is GroupState.DEAD:
        return ANSWERS[ErrorCode.COORDINATOR_NOT_AVAILABLE]
    member_id = request.member_id
    member = group.members.get(member_id)
    if member is None or request.group_instance_id is not None:
        error = identity_error(group, member_id, request.group_instance_id)
        if error:
            return ANSWERS[error]
        assert member is not None
    if request.generation_id != group.generation_id:
        return ANSWERS[ErrorCode.ILLEGAL_GENERATION]
    # The wheel entry is armed with an earlier deadline or waits for a parked request: only the
    # deadline moves.
    member.deadline_ms = now_ms + member.session_timeout_ms
    return _REBALANCING if state is GroupState.PREPARING_REBALANCE else _ALIVE


def expire_pending(group: Group, member_id: str, now_ms: int, effects: Effects) -> None:
    """A member id that was handed out has not been used within the session timeout: it is forgotten
    (T10).
    """
    if member_id not in group.pending_joins:
        return
    group.pending_joins.discard(member_id)
    expired = PendingMemberExpired(
        at_ms=now_ms,
        member_id=member_id,
        state=group.state.value,
        generation_id=group.generation_id,
    )
    effects.note(group.group_id, expired)
    _complete_if_all_joined(group, now_ms, effects)


def expire_session(
    partition: PartitionState, group: Group, member: Member, now_ms: int, effects: Effects
) -> None:
    """The wheel entry of a member has fired: arm it again, leave it to a parked request, or remove
    the member.
    """
    member.armed_ms = 0
    if member.deadline_ms > now_ms:
        member.armed_ms = member.deadline_ms
        effects.arm(TimerKind.SESSION, group.group_id, member.member_id, member.deadline_ms)
        return
    if not member.is_new and (member.delayed_join is not None or member.delayed_sync is not None):
        return
    state = group.state
    remove_member(group, member, now_ms, effects, Removal.SESSION_EXPIRY)
    if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(
            partition, group, now_ms, effects, Cause.SESSION_EXPIRY, Instigator(member)
        )
    else:
        _complete_if_all_joined(group, now_ms, effects)


def _complete_if_all_joined(group: Group, now_ms: int, effects: Effects) -> None:
    # Kafka 4 does this during the initial delay too, where other events wait for the delay (spec
    # section 6).
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        complete_join(group, now_ms, effects)
