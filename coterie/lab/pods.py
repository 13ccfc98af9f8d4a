"""Pods: the processes of the members. They start, stop, die, pause and start again.

What a pod schedules is void when its process ends, and waits while the process is paused. Each
process is a new life of its pod. Its identity is the name of the pod if the pod keeps its ids, as
in a StatefulSet, and contains the number of the life otherwise.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from coterie.lab.kernel import World


class Participant(Protocol):
    """The client of a protocol inside a pod."""

    def start(self) -> None:
        """Start, as a new process."""

    def close(self) -> None:
        """Stop in an orderly way, then call the pod's `exit`."""

    def slow_poll(self, duration_us: int) -> None:
        """Take long for the records at hand."""

    def topic_grew(self) -> None:
        """Learn that the topics have more partitions."""

    def reading(self) -> set[Any]:
        """Return the partitions whose records it hands to the application."""


class Pod:
    """A pod.

    Attributes:
        name: its name.
        life: the number of its process, from 1 on.
        running, paused: the state of the process.
        closing: whether the process has been asked to stop.
        keeps_identity: whether a new process has the identity of the one before.
        participant: the client in the process; None while there is no process.
    """

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.life = 0
        self.running = False
        self.paused = False
        self.closing = False
        self.keeps_identity = False
        self.participant: Any = None
        self.on_exit: Callable[[Pod], None] = lambda _: None
        self._world = world
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        # The moment until which a busy poll lasts.
        self.busy_until_us = 0

    @property
    def identity(self) -> str:
        """The name of the member in the pod."""
        return self.name if self.keeps_identity else f"{self.name}.{self.life}"

    def after(self, delay_us: int, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call inside the present process."""
        self._world.after(delay_us, self.act, self.life, call, arguments)

    def act(self, life: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Make a call inside a process, unless that has ended; later, if it is paused."""
        if life != self.life or not self.running:
            return
        if self.paused:
            self._deferred.append((call, arguments))
        else:
            call(*arguments)

    def begin(self, participant: Any) -> None:
        """Start a process; the caller has counted the life."""
        self.running = True
        self.paused = self.closing = False
        self.busy_until_us = 0
        self.participant = participant
        self._deferred.clear()
        participant.start()

    def exit(self) -> None:
        """End the process."""
        if self.running:
            self.running = self.paused = False
            self.participant = None
            self._deferred.clear()
            self.on_exit(self)

    def resume(self) -> None:
        """Continue a paused process: what should have happened during the pause happens now."""
        self.paused = False
        while self._deferred and not self.paused:
            call, arguments = self._deferred.popleft()
            call(*arguments)
