"""What several verbs do with one member."""

from enum import Enum

from coterie.coordinator.answers import join_error, sync_error
from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import Group, Member, Protocols
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH, MemberFenced, MemberRemoved


class Removal(Enum):
    """Why a member was taken out."""

    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    REBALANCE_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"
    GROUP_FULL = "group full"


def identity_error(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """NONE if the ids name one member of the group, else why not.

    An instance that another member id holds is fenced: of two processes with one instance id the
    older one loses (KIP-345). That is looked at before the member id, so that a fenced one learns
    it even after its id is gone.
    """
    if group_instance_id is not None:
        holder = group.static_members.get(group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def member_fenced(
    group: Group, member_id: str, group_instance_id: str | None, request: str, now_ms: int
) -> MemberFenced:
    """That a process has been told FENCED_INSTANCE_ID.

    Args:
        group: where its instance id is another member's.
        member_id: by which the process goes.
        group_instance_id: of both. Only who names one can be fenced.
        request: what it asked.
        now_ms: the time.
    """
    assert group_instance_id is not None
    return MemberFenced(
        at_ms=now_ms,
        member_id=member_id,
        group_instance_id=group_instance_id,
        holder=group.static_members[group_instance_id],
        generation_id=group.generation_id,
        request=request,
    )


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


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """What the joiner offers, in its order."""
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """The rebalance timeout; version 0 has none, there the session timeout counts (spec 1.2)."""
    timeout_ms = request.rebalance_timeout_ms
    return request.session_timeout_ms if timeout_ms < 0 else timeout_ms
