"""The threads of a test's broker that sync files, on a disk that may be slow.

The delay is a timer of the event loop and no pause of the thread, so it passes in virtual time too.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.server.environment import Environment
from coterie.server.workers import Done, Workers
from coterie.testing.actions import SlowDisk

if TYPE_CHECKING:
    from coterie.storage.closing import RunAll
    from coterie.testing.disk import Faults

# Those that sync what was appended.
_SYNCING = "coterie-flusher"


class DiskWorkers:
    """Workers that begin later while the disk is slow; work is done in order."""

    def __init__(self, workers: Workers, environment: Environment, faults: "Faults") -> None:
        """Let other workers do the work."""
        self._workers = workers
        self._environment = environment
        self._faults = faults
        self._waiting: deque[tuple[Iterator[object], Done]] = deque()
        # When the last of them begins.
        self._due_s = 0.0

    @property
    def idle(self) -> bool:
        """See `Workers`."""
        return not self._waiting and self._workers.idle

    @property
    def run_all(self) -> "RunAll | None":
        """See `Workers`."""
        return self._workers.run_all

    def submit(self, steps: Iterator[object], done: Done) -> None:
        """See `Workers`."""
        fault = self._faults.disk_fault(SlowDisk, "")
        seconds = fault.action.seconds if fault and isinstance(fault.action, SlowDisk) else 0.0
        if not seconds and not self._waiting:
            self._workers.submit(steps, done)
            return
        now_s = self._environment.monotonic_s()
        self._due_s = max(now_s + seconds, self._due_s)
        self._waiting.append((steps, done))
        self._environment.loop.call_later(self._due_s - now_s, self._begin)

    def stop(self) -> None:
        """See `Workers`."""
        while self._waiting:
            self._begin()
        self._workers.stop()

    def _begin(self) -> None:
        """Begin the oldest work, if stopping has not begun it."""
        if self._waiting:
            self._workers.submit(*self._waiting.popleft())


class DiskEnvironment(Environment):
    """An environment on whose disk syncs may take longer."""

    def __init__(self, real: Environment, faults: "Faults") -> None:
        """Take all parts of another environment."""
        super().__init__(
            real.loop,
            real.log,
            now_ms=real.now_ms,
            monotonic_s=real.monotonic_s,
            slice_clock_s=real.slice_clock_s,
            random_bytes=real.random_bytes,
            wall_ms=real.wall_ms,
        )
        self._real = real
        self._faults = faults

    def workers(self, name: str, threads: int) -> Workers:
        """See `Environment`."""
        found = self._real.workers(name, threads)
        return DiskWorkers(found, self, self._faults) if name == _SYNCING else found
