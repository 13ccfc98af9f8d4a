"""The disk of one scenario, the broker that runs on it, and what a finished scenario leaves."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.crash.disk import Disk, Operation, RecordingFileSystem
from tests.crash.history import History
from tests.crash.node import DEFAULT_BOUNDS, Bounds, Node


class Recording(NamedTuple):
    """A finished scenario: the disk before it, the operations on it, what clients know.

    Between two of the `marks`, numbers of operations, is one part of the scenario.
    """

    name: str
    flush: bool
    base: Disk
    operations: list[Operation]
    history: History
    marks: tuple[int, ...] = ()


class ScenarioRun:
    """The disk of one scenario, and the broker running on it."""

    def __init__(
        self,
        *,
        flush: bool,
        wrap: Callable[[Any], Any] | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Begin with an empty disk.

        Args:
            flush: whether the broker syncs before it acknowledges.
            wrap: puts another file system between the broker and the recording one.
            bounds: the broker's settings.
        """
        self.flush = flush
        self.recorder = RecordingFileSystem()
        self.filesystem: Any = self.recorder if wrap is None else wrap(self.recorder)
        # Called by `begin_recording`.
        self.begins: Callable[[], None] = lambda: None
        self.history = History()
        self.base = self.recorder.disk.copy()
        self.elapsed_ms = 0
        self.bounds = bounds
        self.marks: list[int] = []
        self.node: Node

    def start(self, delay_ms: int = 0) -> Node:
        """Start a broker on the disk, `delay_ms` after the last one ended."""
        self.elapsed_ms += delay_ms
        self.node = Node(
            self.filesystem,
            self.history,
            flush=self.flush,
            delay_ms=self.elapsed_ms,
            bounds=self.bounds,
        )
        self.node.recorder = self.recorder
        return self.node

    def stop(self) -> None:
        """Stop the broker cleanly."""
        self.elapsed_ms = self.node.now_ms - self.node.start_ms
        self.node.close()
        del self.node

    def die(self) -> None:
        """Kill the broker's process; the disk keeps everything it has written."""
        if hasattr(self, "node"):
            self.elapsed_ms = self.node.now_ms - self.node.start_ms
            self.node.directory._lock.release()
            del self.node

    def mark(self) -> None:
        """Begin another part of the scenario."""
        self.marks.append(len(self.recorder.operations))

    def begin_recording(self) -> None:
        """Begin the scenario proper: what is on the disk now is durable."""
        self.base = self.recorder.disk.copy()
        self.recorder.operations.clear()
        self.marks.clear()
        history = self.history
        for register in (history.groups, history.settings, *history.topics.values()):
            newest = len(register.states) - 1
            register.moments = [(0, newest, newest)]
        self.begins()
