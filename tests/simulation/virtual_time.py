"""Virtual time of a simulation: timers of a coordinator and events of its clients, in order."""

from collections.abc import Callable
from heapq import heappop
from typing import Any

from coterie.conformance.harness import CoordinatorHarness
from tests.simulation.checks.violation import require

Events = list[tuple[int, int, Callable[..., None], tuple[Any, ...]]]
"""A heap: time, a number that keeps the order of one time, the function, its arguments."""


def run_until(
    harness: CoordinatorHarness,
    events: Events,
    end_ms: int,
    after_each: Callable[[], None],
    most_at_once: int,
) -> None:
    """Run timers and events up to a time; at one time the timers come first.

    Args:
        harness: the coordinator; its clock is at `end_ms` afterwards.
        events: what clients do.
        end_ms: the time.
        after_each: called after each timer and each event.
        most_at_once: more at one time are an endless loop.
    """
    before_ms = at_once = 0
    while True:
        deadline_ms = harness.coordinator.next_deadline_ms()
        if deadline_ms is not None and (not events or deadline_ms <= events[0][0]):
            if deadline_ms > end_ms:
                break
            harness.now_ms = max(harness.now_ms, deadline_ms)
            harness.advance()
        else:
            if not events or events[0][0] > end_ms:
                break
            at_ms, _, function, arguments = heappop(events)
            harness.now_ms = max(harness.now_ms, at_ms)
            function(*arguments)
        after_each()
        at_once = at_once + 1 if harness.now_ms == before_ms else 0
        before_ms = harness.now_ms
        require(at_once < most_at_once, "endless-loop", f"events at {before_ms} do not end")
    harness.now_ms = max(harness.now_ms, end_ms)
