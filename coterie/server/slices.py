"""Long work on the event loop, in slices of some milliseconds [connections/turns].

Between two slices the event loop serves others. All long work together has one slice a turn, so ten
large requests hold nobody longer than one.

Work is an iterator of steps, each of which takes less than a few milliseconds.
"""

from collections import deque
from collections.abc import Callable, Iterator

from coterie.server.environment import Environment
from coterie.server.workers import Done

# How long a slice may hold the event loop, not counting the last of its steps.
SLICE_S = 0.004


def work_for_a_slice(steps: Iterator[object], clock_s: Callable[[], float]) -> bool:
    """Do some work for the time of a slice; return whether that has not finished it."""
    deadline_s = clock_s() + SLICE_S
    return any(clock_s() >= deadline_s for _ in steps)


def raise_failure(failure: Exception | None) -> None:
    """Raise the failure of work whose end nothing waits for; the event loop reports it."""
    if failure is not None:
        raise failure


class Slices:
    """The work to be done, in turn."""

    def __init__(self, environment: Environment) -> None:
        """Start without work."""
        self._loop = environment.loop
        self._slice_clock_s = environment.slice_clock_s
        self._queue: deque[tuple[Iterator[object], Done]] = deque()
        self._is_scheduled = False

    @property
    def idle(self) -> bool:
        """Whether all work is done."""
        return not self._queue

    def submit(self, steps: Iterator[object], done: Done) -> None:
        """Do some work in later turns; `done` is called after it."""
        self._queue.append((steps, done))
        self._schedule()

    def begin(self, steps: Iterator[object], done: Callable[[], None]) -> None:
        """Do a slice of some work now and the rest in later turns; `done` is called after it.

        An exception of the first slice is raised here, one of a later slice in its turn.
        """

        def finished(failure: Exception | None) -> None:
            if failure is not None:
                raise failure
            done()

        if work_for_a_slice(steps, self._slice_clock_s):
            self.submit(steps, finished)
        else:
            done()

    def stop(self) -> None:
        """Finish the work at once."""
        while self._queue:
            self._work()

    @property
    def run_all(self) -> None:
        """See `Workers`: there are no threads."""
        return

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        self._work()
        if self._queue:
            self._schedule()

    def _work(self) -> None:
        """Work for one slice."""
        deadline_s = self._slice_clock_s() + SLICE_S
        while self._queue:
            steps, done = self._queue[0]
            failure: Exception | None = None
            try:
                for _ in steps:
                    if self._slice_clock_s() >= deadline_s:
                        # Other work has the next slice.
                        self._queue.rotate(-1)
                        return
            except Exception as error:  # noqa: BLE001 - reported to the owner of the work
                failure = error
            self._queue.popleft()
            done(failure)
            if self._slice_clock_s() >= deadline_s:
                return
