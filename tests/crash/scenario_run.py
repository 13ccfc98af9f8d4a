"""The disk of one scenario, the broker that runs on it, and what a finished scenario leaves."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.crash.disk import Disk, Operation, RecordingFileSystem
from tests.crash.history import History
from tests.crash.node import Node


class Recording(NamedTuple):
    """A finished scenario: the disk before it, the operations on it, what clients know."""

    name: str
    flush: bool
    base: Disk
    operations: list[Operation]
    history: History


class ScenarioRun:
    """The disk of one scenario, and the broker running on it."""

    def __init__(self, *, flush: bool, wrap: Callable[[Any], Any] | None = None) -> None:
        """Begin with an empty disk.

        Args:
            flush: whether the broker syncs before it acknowledges.
            wrap: puts another file system between the broker and the recording one.
        """
        self.flush = flush
        self.recorder = RecordingFileSystem()
        self.filesystem: Any = self.recorder if wrap is None else wrap(self.recorder)
        # Called by `begin_recording`.
        self.begins: Callable[[], None] = lambda: None
        self.history = History()
        self.base = self.recorder.disk.copy()
        self.elapsed_ms = 0
        self.node: Node

    def start(self, delay_ms: int = 0) -> Node:
        """Start a broker on the disk, `delay_ms` after the last one ended."""
        self.elapsed_ms += delay_ms
        self.node = Node(self.filesystem, self.history, flush=self.flush, delay_ms=self.elapsed_ms)
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

    def begin_recording(self) -> None:
        """Begin the scenario proper: what is on the disk now is durable."""
        self.base = self.recorder.disk.copy()
        self.recorder.operations.clear()
        for register in (self.history.groups, *self.history.topics.values()):
            newest = len(register.states) - 1
            register.moments = [(0, newest, newest)]
        self.begins()
