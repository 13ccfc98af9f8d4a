"""An environment without real time, chance and threads: for a seed a broker does the same again."""

import random
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from coterie.server.environment import Environment
from coterie.server.workers import Done, Workers
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.manual import RecordingLog
from tests.unit.server.manual_loop import ManualLoop

# What the clock of slices counts at each reading: a slice is as many steps in every run.
_READING_S = 0.0001

T = TypeVar("T")


class TurnWorkers:
    """Does work in later turns of a loop, in order."""

    def __init__(self, loop: ManualLoop) -> None:
        self._loop = loop
        self._queue: deque[tuple[Iterator[object], Done]] = deque()
        self._unreported = 0

    @property
    def idle(self) -> bool:
        return not self._unreported

    @property
    def run_all(self) -> None:
        return

    def submit(self, steps: Iterator[object], done: Done) -> None:
        self._unreported += 1
        self._queue.append((steps, done))
        self._loop.call_soon(self._work)

    def stop(self) -> None:
        while self._queue:
            self._work()

    def _work(self) -> None:
        if not self._queue:
            return
        steps, done = self._queue.popleft()
        failure = None
        try:
            for _ in steps:
                pass
        except Exception as error:
            failure = error
        self._loop.call_soon(self._report, done, failure)

    def _report(self, done: Done, failure: Exception | None) -> None:
        self._unreported -= 1
        done(failure)


class VirtualEnvironment(Environment):
    """The environment of a seed, on a manual loop."""

    def __init__(self, loop: ManualLoop, seed: int) -> None:
        self.manual = loop
        self._read_s = 0.0
        super().__init__(
            loop.as_loop(),
            RecordingLog().as_logger(),
            now_ms=loop.clock,
            monotonic_s=loop.time,
            slice_clock_s=self._tick,
            random_bytes=random.Random(seed).randbytes,
        )

    def workers(self, name: str, threads: int) -> Workers:
        return TurnWorkers(self.manual)

    def _tick(self) -> float:
        self._read_s += _READING_S
        return self._read_s


def complete(loop: ManualLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; time jumps to the next timer whenever nothing else is left to do."""
    while True:
        try:
            awaited = coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        loop.turn()
        while awaited is not None and not awaited.done():
            loop.jump()


def contents(filesystem: MemoryFileSystem, path: str = "") -> dict[str, bytes]:
    """Return the bytes of all files, by path."""
    found: dict[str, bytes] = {}
    for name in filesystem.list(path):
        below = f"{path}/{name}".lstrip("/")
        try:
            found |= contents(filesystem, below)
        except NotADirectoryError:
            file = filesystem.open(below)
            found[below] = file.read(0, file.size())
    return found
