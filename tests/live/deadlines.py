"""Waiting with a deadline: the only way the live tests wait.

A condition is asked again and again until it holds; what it last said is part of the error, so a
test that gives up says what it saw. The pause between two questions is short and bounded.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Real clients on a loaded two-core machine: far above the usual half second, far below a hang.
GENEROUS_S = 40.0
PAUSE_S = 0.03


def eventually(
    condition: Callable[[], T],
    what: str,
    within_s: float = GENEROUS_S,
    told: Callable[[], object] | None = None,
) -> T:
    """Ask `condition` until its answer is true, and return that answer.

    `what` completes the sentence "... did not hold"; `told` adds the evidence to the error.
    """
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            evidence = told() if told else repr(answer)
            raise AssertionError(f"{what}: not so after {within_s:g} s; last seen: {evidence}")
        time.sleep(PAUSE_S)


def holds_for(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Check that `condition` keeps holding for `seconds`: for things that must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"{what}: stopped holding"
        time.sleep(PAUSE_S)
