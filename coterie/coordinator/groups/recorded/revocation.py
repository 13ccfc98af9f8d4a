"""The time in which a member has to give up what it was asked for.

A member keeps the record for which its timer was armed, so a heartbeat that reports nothing new
does not arm it anew [consumer-groups/timers] [streams-groups/timers].
"""

from typing import Any

from coterie.coordinator.groups.step import GroupStep


def time_revocation(step: GroupStep[Any], member: Any, kind: str, *, is_asked: bool) -> None:
    """Arm or cancel the timer of a member.

    Args:
        step: a step of its group.
        member: the member.
        kind: the kind of the timer.
        is_asked: whether it has to give something up.
    """
    if not is_asked:
        cancel_revocation(step, member, kind)
    elif member.revocation is not member.current:
        # A record was written: there is something new to give up.
        assert member.current is not None, f"{member} is asked without a record"
        member.revocation = member.current
        step.arm(kind, member.member_id, step.now_ms + member.rebalance_timeout_ms)


def cancel_revocation(step: GroupStep[Any], member: Any, kind: str) -> None:
    """Cancel the timer of a member, if it is armed."""
    if member.revocation is not None:
        member.revocation = None
        step.cancel(kind, member.member_id)


def is_revocation_over(member: Any) -> bool:
    """Handle that the timer of a member has fired; return whether it was waited for."""
    is_asked = member.revocation is not None and member.revocation is member.current
    member.revocation = None
    return is_asked
