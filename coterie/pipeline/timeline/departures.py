"""Leave or expiry: how a member left, judged from its commits [pipeline/departures]."""

LEAVE = "leave"
SESSION_EXPIRY = "session expiry"

RECORDED = "recorded by the coordinator"


def silence_text(silent_ms: int, session_timeout_ms: int) -> str:
    """Return a silence beside the session timeout: silent for 7.4 s, session 6 s."""
    return f"silent for {silent_ms / 1000:.1f} s, session {session_timeout_ms / 1000:g} s"
