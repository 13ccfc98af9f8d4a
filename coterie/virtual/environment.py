"""A broker's environment without real time, chance and threads: a seed gives the same again."""

import random
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from coterie.server.environment import Environment
from coterie.server.workers import Done, Workers

if TYPE_CHECKING:
    from coterie.server.logging import Logger

# A slice of 4 ms is 17 steps, one of the cleaner's 0.5 ms is 2. A power of two, so that the sums
# are exact: a slice has as many steps late in a run as at its start.
_READING_S = 2**-12


class SliceClock:
    """A clock of slices that counts its readings: a slice is as many steps on every machine."""

    def __init__(self) -> None:
        """Start at zero."""
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return the time in seconds, which the reading has moved."""
        self._now_s += _READING_S
        return self._now_s


class TurnWorkers:
    """Does work in later turns of a loop, in order."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Work on a loop."""
        self._loop = loop
        self._queue: deque[tuple[Iterator[object], Done]] = deque()
        self._unreported = 0

    @property
    def idle(self) -> bool:
        """See `Workers`."""
        return not self._unreported

    @property
    def run_all(self) -> None:
        """See `Workers`."""
        return

    def submit(self, steps: Iterator[object], done: Done) -> None:
        """See `Workers`."""
        self._unreported += 1
        self._queue.append((steps, done))
        self._loop.call_soon(self._work)

    def stop(self) -> None:
        """See `Workers`."""
        while self._queue:
            self._work()

    def _work(self) -> None:
        if not self._queue:
            return
        steps, done = self._queue.popleft()
        failure: Exception | None = None
        try:
            for _ in steps:
                pass
        except Exception as error:  # noqa: BLE001 - reported on the loop
            failure = error
        self._loop.call_soon(self._report, done, failure)

    def _report(self, done: Done, failure: Exception | None) -> None:
        self._unreported -= 1
        done(failure)


class SeededEnvironment(Environment):
    """The environment of a seed; its clocks are those of the caller."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        log: "Logger",
        seed: int,
        *,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
    ) -> None:
        """Take loop, log and clocks, and chance from a seed."""
        super().__init__(
            loop,
            log,
            now_ms=now_ms,
            monotonic_s=monotonic_s,
            slice_clock_s=SliceClock(),
            random_bytes=random.Random(seed).randbytes,  # noqa: S311 - repeatable chance, no secrets
        )

    def workers(self, name: str, threads: int) -> Workers:  # noqa: ARG002 - there are no threads
        """Return what does work in later turns of the loop."""
        return TurnWorkers(self.loop)
