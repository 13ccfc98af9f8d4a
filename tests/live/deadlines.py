"""Waiting with a deadline: the only way in which the live tests wait.

A condition is checked again and again until it holds. If it does not hold in time, the error shows
what was last seen. The pause between two checks is short and constant.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# For real clients on a busy two-core machine: usually it takes half a second.
GENEROUS_S = 40.0
PAUSE_S = 0.03


def eventually(
    condition: Callable[[], T],
    what: str,
    within_s: float = GENEROUS_S,
    evidence: Callable[[], object] | None = None,
) -> T:
    """Check a condition until its result is true, and return that result.

    Args:
        condition: the condition.
        what: what is waited for, for the error.
        within_s: the time limit.
        evidence: returns what the error shows, instead of the last result.

    Raises:
        AssertionError: the condition does not hold within the limit.
    """
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            seen = evidence() if evidence else repr(result)
            raise AssertionError(f"{what}: not within {within_s:g} s; last seen: {seen}")
        time.sleep(PAUSE_S)


def holds_for(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Check that a condition holds for some time, for things that must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"{what}: no longer"
        time.sleep(PAUSE_S)
