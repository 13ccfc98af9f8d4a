"""Work that waits for the disk: syncs, opening logs, creating partitions, compaction, small files.

The event loop hands such work over and is called back with its result [connections/turns]. Threads
do it on a real disk. Files in memory need none, so there the loop opens logs and creates partitions
in slices (slices.py).

Work is an iterator of steps. What it computes it keeps itself; only an exception is passed on. It
reads no state of the event loop. This is the only module of the server that starts threads, besides
the watchdog.
"""

import threading
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Protocol

from coterie.storage.closing import RunAll

# Called on the event loop with the exception that ended the work, or None.
Done = Callable[[Exception | None], None]

# The threads that close logs. Each log waits for several syncs, and those of eight threads take
# a tenth of the time of one.
_CLOSING_THREADS = 8
# How long stopping waits for the threads. A disk that takes longer will not answer.
STOP_TIMEOUT_S = 10.0


class Workers(Protocol):
    """Where work is handed over to."""

    @property
    def idle(self) -> bool:
        """Whether all work is done and reported."""

    def submit(self, steps: Iterator[object], done: Done) -> None:
        """Do some work; `done` is called later, never before this returns."""

    def stop(self) -> None:
        """Wait for the work that was submitted, and end the threads; it is reported later."""

    @property
    def run_all(self) -> RunAll | None:
        """Calls functions in threads of their own and waits for them; None without threads."""


def once(call: Callable[[], object]) -> Iterator[object]:
    """Return one call as an iterator of one step."""
    yield call()


class WorkerThreads:
    """A few threads that share one queue; with one thread, work is done in order."""

    def __init__(self, loop: AbstractEventLoop, name: str, threads: int) -> None:
        """Start without threads: each is started when all others have work.

        Args:
            loop: the event loop, on which `done` is called.
            name: the name of the threads.
            threads: their greatest number.
        """
        assert threads > 0, "there is a thread that does the work"
        self._loop = loop
        self._name = name
        self._limit = threads
        self._queue: SimpleQueue[tuple[Iterator[object], Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Work that was submitted and is not reported yet.
        self._pending = 0

    @property
    def idle(self) -> bool:
        """See `Workers`."""
        return not self._pending

    def submit(self, steps: Iterator[object], done: Done) -> None:
        """See `Workers`."""
        self._pending += 1
        self._queue.put((steps, done))
        if len(self._threads) < min(self._limit, self._pending):
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        """Do what is queued until None is queued; this is a thread."""
        while (work := self._queue.get()) is not None:
            steps, done = work
            failure: Exception | None = None
            try:
                for _ in steps:
                    pass
            except Exception as error:  # noqa: BLE001 - reported on the event loop
                failure = error
            try:
                self._loop.call_soon_threadsafe(self._report, done, failure)
            except RuntimeError:
                return  # The loop is closed: the broker has stopped without waiting for this work.

    def _report(self, done: Done, error: Exception | None) -> None:
        self._pending -= 1
        assert self._pending >= 0, "work is reported once"
        done(error)

    def stop(self) -> None:
        """See `Workers`."""
        for _ in self._threads:
            self._queue.put(None)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        self._threads.clear()

    @property
    def run_all(self) -> RunAll:
        """See `Workers`."""
        return _run_all


def _run_all(calls: list[Callable[[], None]]) -> None:
    # Threads may share it. In free-threaded Python two can get the same step of an iterator.
    left = deque(calls)
    threads = [
        threading.Thread(target=_run_each, args=(left,), name="coterie-disk")
        for _ in range(_CLOSING_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run_each(left: deque[Callable[[], None]]) -> None:
    while True:
        try:
            call = left.popleft()
        except IndexError:
            return
        call()
