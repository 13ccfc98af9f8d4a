"""Sessions restarted, members taken out: the two small steps that every verb shares."""

from enum import Enum

from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import Group, Member
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH, MemberRemoved
from coterie.protocol.messages.sync_group import SyncGroupResponse


class Removal(Enum):
    """Why a member was taken out."""

    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    REBALANCE_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"
    GROUP_FULL = "group full"


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refused JoinGroup: no generation, no leader, no protocol (spec section 1.2)."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup: no protocol, no assignment."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def start_session(
    group: Group, member: Member, timeout_ms: int, now_ms: int, effects: Effects
) -> None:
    """Let a member's session end `timeout_ms` from now.

    The wheel is touched only where its entry would fire too late, or is missing.
    """
    deadline_ms = now_ms + timeout_ms
    member.deadline_ms = deadline_ms
    if not member.armed_ms or deadline_ms < member.armed_ms:
        member.armed_ms = deadline_ms
        effects.arm(TimerKind.SESSION, group.group_id, member.member_id, deadline_ms)


def remove_member(
    group: Group,
    member: Member,
    now_ms: int,
    effects: Effects,
    cause: Removal,
    reason: str | None = None,
    requester: RequestContext | None = None,
) -> None:
    """Take a member out: its timer is cancelled, its parked requests are told that it is unknown.

    The join is answered with a blank member id, so that a client which is still there starts anew
    (spec section 6).

    Args:
        group: whose member.
        member: who goes.
        now_ms: the time.
        effects: gathers replies, timers and the event.
        cause: why.
        reason: what a client gave as reason (KIP-800).
        requester: who asked for it, if it was not the member itself.
    """
    to = group.take_join(member)
    if to is not None:
        effects.replies.append(Reply(to, join_error(ErrorCode.UNKNOWN_MEMBER_ID, "")))
    if member.delayed_sync is not None:
        effects.replies.append(Reply(member.delayed_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID)))
        member.delayed_sync = None
    was_leader = group.leader == member.member_id
    group.remove(member.member_id)
    if member.armed_ms:
        member.armed_ms = 0
        effects.cancel(TimerKind.SESSION, group.group_id, member.member_id)
    effects.note(
        group.group_id,
        MemberRemoved(
            at_ms=now_ms,
            cause=cause.value,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            state=group.state.value,
            generation_id=group.generation_id,
            member_count=len(group.members),
            was_leader=was_leader,
            leader=group.leader,
            last_heard_ms=member.last_heard_ms(),
            session_timeout_ms=member.session_timeout_ms,
            reason=told_reason(reason),
            requester_client_id=None if requester is None else requester.client_id,
            requester_host=None if requester is None else requester.client_host,
        ),
    )


def told_reason(reason: str | None) -> str | None:
    """What a client gave as reason, no longer than it may be, and None where it gave none."""
    return reason[:MAX_REASON_LENGTH] if reason else None
