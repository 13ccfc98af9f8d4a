"""Leave or expiry: how a member left, judged from its commits [pipeline/departures].

The group log of a classic group has neither. But a commit renews the session of its member, and the
log has the session timeout. So a member that has committed more recently than that has not expired.
"""

from typing import NamedTuple

LEAVE = "leave"
SESSION_EXPIRY = "session expiry"
OPEN = "leave or expiry"

RECORDED = "recorded by the coordinator"

# An expiry is logged one session timeout after the last heartbeat, and the end of the rebalance
# somewhat later. A silence that is much longer has another reason.
_LONGEST_SILENCE = 2
# A member that usually commits this often within its session timeout would have committed.
_USUAL_COMMITS = 2


class Departure(NamedTuple):
    """What is known of a member that is no longer in the group.

    Attributes:
        at_ms: when the first generation without it was logged.
        session_timeout_ms, rebalance_timeout_ms: as its client set them; None if unknown.
        owned: whether it owned partitions, so that commits of these are its commits.
        committed_ms: its last commit; None if there is none.
        usual_gap_ms: the time between two of its commits; None if unknown.
    """

    at_ms: int
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    owned: bool
    committed_ms: int | None
    usual_gap_ms: float | None


class Exit(NamedTuple):
    """How a member left, and how that is known."""

    kind: str
    evidence: str


def judged(departure: Departure) -> Exit:
    """Return whether a member left or expired, or that this is open."""
    session_ms, committed_ms = departure.session_timeout_ms, departure.committed_ms
    if session_ms is None:
        return Exit(OPEN, "its session timeout is not known")
    if not departure.owned:
        return Exit(OPEN, "owned no partitions, so its commits are not known")
    if committed_ms is None:
        return Exit(OPEN, "did not commit")
    silent_ms = departure.at_ms - committed_ms
    silent = silence_text(silent_ms, session_ms)
    if silent_ms < session_ms:
        return Exit(LEAVE, f"{silent}: too short for an expiry")
    usual_ms = departure.usual_gap_ms
    if usual_ms is None:
        return Exit(OPEN, f"{silent}, and how often it commits is not known")
    if usual_ms * _USUAL_COMMITS > session_ms:
        return Exit(OPEN, f"{silent}, which is usual for it")
    if silent_ms > _LONGEST_SILENCE * session_ms:
        return Exit(OPEN, f"{silent}: too long for an expiry, if it sent heartbeats until then")
    if silent_ms >= (departure.rebalance_timeout_ms or silent_ms + 1):
        return Exit(OPEN, f"{silent}, as long as its rebalance timeout")
    return Exit(SESSION_EXPIRY, silent)


def silence_text(silent_ms: int, session_timeout_ms: int) -> str:
    """Return a silence beside the session timeout: silent for 7.4 s, session 6 s."""
    return f"silent for {silent_ms / 1000:.1f} s, session {session_timeout_ms / 1000:g} s"
