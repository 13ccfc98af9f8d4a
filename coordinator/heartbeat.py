"""Heartbeat: the request there is most of (spec section 6).

It stores a deadline and answers; no timer, no record, no event. The answers are the same few values
every time, made once.
"""

from typing import TYPE_CHECKING

from coterie.coordinator.effects import Effects
from coterie.coordinator.group import GroupState
from coterie.coordinator.identity import identity_error
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from coterie.coordinator.shard import Shard

# Shared by all callers: an answer is not changed by whoever sends it.
ANSWERS: dict[ErrorCode, Effects] = {
    error: Effects(HeartbeatResponse(error_code=error)) for error in ErrorCode
}

_ALIVE = ANSWERS[ErrorCode.NONE]
_REBALANCING = ANSWERS[ErrorCode.REBALANCE_IN_PROGRESS]


def heartbeat(shard: "Shard", now_ms: int, request: HeartbeatRequest) -> Effects:
    """Keep a member's session alive and tell it whether its group is rebalancing."""
    group = shard.groups.get(request.group_id)
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
