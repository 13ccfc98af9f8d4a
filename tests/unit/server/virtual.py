"""An environment without real time, chance and threads: for a seed a broker does the same again."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.virtual.environment import SeededEnvironment
from tests.unit.server.manual import RecordingLog
from tests.unit.server.manual_loop import ManualLoop

T = TypeVar("T")


class VirtualEnvironment(SeededEnvironment):
    """The environment of a seed, on a manual loop."""

    def __init__(self, loop: ManualLoop, seed: int) -> None:
        super().__init__(
            loop.as_loop(),
            RecordingLog().as_logger(),
            seed,
            now_ms=loop.clock,
            monotonic_s=loop.time,
        )


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
