"""`coterie` that counts the steps of its threads: `python -m tests.soak.turns.counted serve`.

A step is a line of Python that is run, or a function that is called or returns. The clock that
ends a slice of long work counts steps, too. So the count is the same on a slow machine and a fast
one, but for the few steps of timers. It tells whether a verb costs the square of something, which a
small server shows as well as a large one.

The socket is that of `timed.py`; its line of JSON is the number of steps since the last question.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from coterie.cli.main import main
from coterie.server import run
from coterie.server.environment import Environment
from coterie.server.watchdog import HeldLoop
from tests.soak.turns.timed import answer_questions

# What a step takes without a count, about: a slice has as many steps on every machine.
_STEP_S = 5e-8


class Steps:
    """The steps of all threads that are traced.

    Attributes:
        count: since the start. Two threads may lose a step to each other, which is rare.
    """

    def __init__(self) -> None:
        self.count = 0
        self._asked = 0

    def trace(self, _frame: FrameType, _event: str, _argument: object) -> Any:
        """Count an event."""
        self.count += 1
        return self.trace

    def taken(self) -> int:
        """Return the steps since the last call."""
        before, self._asked = self._asked, self.count
        return self._asked - before

    def slice_clock_s(self) -> float:
        """Return the time that the steps would have taken, to end a slice of long work."""
        return self.count * _STEP_S


STEPS = Steps()


class CountingWatchdog:
    """Takes the place of the server's watchdog: it starts with the event loop, in its thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[HeldLoop], None],
        limit_ms: float,
        **options: Any,
    ) -> None:
        """Count nothing yet."""

    def start(self) -> None:
        """Begin to count; called in the thread of the event loop."""
        answer_questions(STEPS.taken)
        sys.settrace(STEPS.trace)

    def stop(self) -> None:
        """Count no longer."""
        sys.settrace(None)


class CountingEnvironment(Environment):
    """The environment of the server, in which a slice of long work has a number of steps."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        """Take the parts, but for the clock of slices."""
        super().__init__(*parts, **{**named, "slice_clock_s": STEPS.slice_clock_s})


def count_steps() -> None:
    """Run `coterie`, and count the steps of its event loop and its workers."""
    threading.settrace(STEPS.trace)
    run.Environment = CountingEnvironment  # type: ignore[attr-defined]
    run.Watchdog = CountingWatchdog  # type: ignore[assignment, attr-defined]
    main(prog_name="coterie")


if __name__ == "__main__":
    count_steps()
