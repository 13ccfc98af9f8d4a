"""The sessions of members, the same for classic and consumer groups [sessions/session-timeout].

A member has at most one entry in the timing wheel for its session. Heartbeats only store a later
deadline; the entry is armed again when it fires.
"""

from typing import Any

from coterie.coordinator.groups.step import GroupStep


class SessionMember:
    """A member with a session. Members of each type of groups derive from it.

    Attributes:
        member_id: its id.
        deadline_ms: when its session ends. Heartbeats move it and leave the timing wheel alone.
        armed_ms: the deadline that its entry in the timing wheel has; 0 without an entry.
    """

    __slots__ = ("armed_ms", "deadline_ms", "member_id")

    def __init__(self, member_id: str) -> None:
        """Create a member without a session."""
        self.member_id = member_id
        self.deadline_ms = 0
        self.armed_ms = 0


def extend_session(step: GroupStep[Any], member: SessionMember, kind: str, timeout_ms: int) -> None:
    """Let a member's session end `timeout_ms` from now.

    The timing wheel is not touched if it has an entry that fires before then.

    Args:
        step: a step of the group.
        member: a member of the group.
        kind: of the timer.
        timeout_ms: the time.
    """
    known: SessionMember | None = step.group.members.get(member.member_id)
    assert known is member, "only a member has a session"
    deadline_ms = step.now_ms + timeout_ms
    member.deadline_ms = deadline_ms
    if not member.armed_ms or deadline_ms < member.armed_ms:
        member.armed_ms = deadline_ms
        step.arm(kind, member.member_id, deadline_ms)
    assert member.armed_ms <= deadline_ms, "a timer fires before the session ends, or with it"


def start_session(step: GroupStep[Any], member: Any, kind: str, timeout_ms: int) -> None:
    """Let the session of a member that has one of its own length end `timeout_ms` from now.

    Args: those of `extend_session`.
    """
    member.session_ms = timeout_ms
    extend_session(step, member, kind, timeout_ms)


def end_session(step: GroupStep[Any], member: SessionMember, kind: str) -> None:
    """Cancel the timer of a member's session, if it is armed."""
    if member.armed_ms:
        member.armed_ms = 0
        step.cancel(kind, member.member_id)


def has_session_left(step: GroupStep[Any], member: SessionMember, kind: str) -> bool:
    """Handle that the entry of a session has fired; return whether it was armed again."""
    assert member.armed_ms <= step.now_ms, f"the timer of {member.member_id} fired early"
    member.armed_ms = 0
    if member.deadline_ms <= step.now_ms:
        return False
    member.armed_ms = member.deadline_ms
    step.arm(kind, member.member_id, member.deadline_ms)
    return True
