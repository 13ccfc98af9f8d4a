"""`coterie` that counts the steps of its threads: `python -m tests.soak.turns.counted serve`.

A step is a line of Python that is run, or a function that is called or returns. So the count is the
same on a slow machine and a fast one, but for the few steps of timers and of work that is divided
by time. It tells whether a verb costs the square of something, which a small server shows as well
as a large one.

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
from coterie.server.watchdog import HeldLoop
from tests.soak.turns.timed import answer_questions


class Steps:
    """The steps of all threads that are traced.

    Attributes:
        count: since it was asked for. Two threads may lose a step to each other, which is rare.
    """

    def __init__(self) -> None:
        self.count = 0

    def trace(self, _frame: FrameType, _event: str, _argument: object) -> Any:
        """Count an event."""
        self.count += 1
        return self.trace

    def taken(self) -> int:
        """Return the count, and begin anew."""
        count, self.count = self.count, 0
        return count


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


def count_steps() -> None:
    """Run `coterie`, and count the steps of its event loop and its workers."""
    threading.settrace(STEPS.trace)
    run.Watchdog = CountingWatchdog  # type: ignore[assignment, attr-defined]
    main(prog_name="coterie")


if __name__ == "__main__":
    count_steps()
