"""The time of this machine; times and durations as text, the same in the terminal and in JSON."""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the time of this machine, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def time_text(at_ms: int) -> str:
    """Return epoch milliseconds as an ISO 8601 time in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def duration_text(duration_ms: int) -> str:
    """Return a duration in suitable units: 12 ms, 2.31 s, 4 min 5 s, 2 h 3 min."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.2f} s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
