"""Steps of several verbs with one member: check who it is, start its session, remove it."""

from enum import StrEnum

from coterie.coordinator.groups.classic.member import Member, Protocols
from coterie.coordinator.groups.classic.responses import join_error, sync_error
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.sessions import extend_session
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH, MemberRemoved


class Removal(StrEnum):
    """Why a member was removed [journal/members]."""

    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    REBALANCE_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"
    GROUP_FULL = "group full"


# -- what a JoinGroup says -------------------------------------------------------------------------


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Return the joiner's protocols in its order of preference."""
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """Return the joiner's rebalance timeout in ms [joining/rebalance-timeout]."""
    timeout_ms = request.rebalance_timeout_ms
    return request.session_timeout_ms if timeout_ms < 0 else timeout_ms


def recorded_reason(reason: str | None) -> str | None:
    """Return a client's reason as the journal stores it, or None [sessions/reasons]."""
    return reason[:MAX_REASON_LENGTH] if reason else None


# -- session and removal ---------------------------------------------------------------------------


def start_session(step: Step, member: Member, timeout_ms: int) -> None:
    """Let a member's session end `timeout_ms` from now [sessions/session-timeout]."""
    extend_session(step, member, TimerKind.SESSION, timeout_ms)


def remove_member(
    step: Step,
    member: Member,
    cause: Removal,
    reason: str | None = None,
    requester: RequestContext | None = None,
) -> None:
    """Remove a member: cancel its timer and answer its delayed requests with UNKNOWN_MEMBER_ID.

    The response to a join has a blank member id, so that a client that still runs joins anew
    [sessions/removal].

    Args:
        step: a step of the member's group.
        member: the member to remove.
        cause: why it is removed.
        reason: the reason that a client gave (KIP-800).
        requester: the client that asked for the removal, if it is not the member itself.
    """
    group = step.group
    assert group.members.get(member.member_id) is member, f"{member.member_id} is not in {group}"
    assert group.state is not GroupState.EMPTY, f"{group} has members"
    assert group.state is not GroupState.DEAD, f"a member of {group} is removed"
    join_to = group.take_delayed_join(member)
    if join_to is not None:
        step.reply(join_to, join_error(ErrorCode.UNKNOWN_MEMBER_ID, ""))
    sync_to = member.take_delayed_sync()
    if sync_to is not None:
        step.reply(sync_to, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    was_leader = group.leader == member.member_id
    group.remove(member.member_id)
    assert group.leader != member.member_id, f"{group} is led by a member that was removed"
    if member.armed_ms:
        member.armed_ms = 0
        step.cancel(TimerKind.SESSION, member.member_id)
    step.note(
        MemberRemoved(
            at_ms=step.now_ms,
            cause=str(cause),
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            state=str(group.state),
            generation_id=group.generation_id,
            member_count=len(group.members),
            was_leader=was_leader,
            leader=group.leader,
            last_heard_ms=member.last_heard_ms(),
            session_timeout_ms=member.session_timeout_ms,
            reason=recorded_reason(reason),
            requester_client_id=None if requester is None else requester.client.client_id,
            requester_host=None if requester is None else requester.client.client_host,
            requester_principal=None if requester is None else requester.client.login,
        ),
    )
