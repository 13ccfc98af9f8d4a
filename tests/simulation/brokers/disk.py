"""What simulated brokers live on: a disk that takes some time, and a loop that they can lose.

All brokers of a world live on its loop. When their process dies, nothing that it has scheduled is
called any more, while clients go on.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from coterie.server.workers import Done, Workers
from coterie.virtual.environment import TurnWorkers
from tests.unit.server.manual_loop import Handle, ManualLoop
from tests.unit.server.virtual import VirtualEnvironment

_FLUSHER = "coterie-flusher"
# How long a piece of work takes, in milliseconds; a run has one of these.
_SPEEDS_MS = ((0, 0, 1), (0, 5, 40), (20, 200))


class Disk:
    """A disk.

    Attributes:
        turn: the number of the present turn of the loop.
        synced_turn: what was appended before the end of this turn is on the disk.
    """

    def __init__(self, chance: Random) -> None:
        """Choose its speed."""
        self.turn = 0
        self.synced_turn = -1
        self._chance = chance
        self._delays_ms = chance.choice(_SPEEDS_MS)

    def delay_ms(self) -> int:
        """Return how long the next piece of work takes."""
        return self._chance.choice(self._delays_ms)

    def synced(self, turn: int) -> None:
        """Note that all is on the disk that was there in a turn."""
        self.synced_turn = max(self.synced_turn, turn)


class Life(ManualLoop):
    """The loop as the brokers of one process see it.

    Attributes:
        is_over: whether the process is dead, and nothing is called any more.
    """

    def __init__(self, loop: ManualLoop) -> None:
        """Schedule calls on the loop of the world."""
        self.is_over = False
        self._of_world = loop
        super().__init__()

    def call_soon(self, call: Callable[..., object], *args: object, **_: object) -> None:
        self._of_world.call_soon(self._call, call, args)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> Handle:
        return self._of_world.call_later(delay_s, self._call, call, args)

    def time(self) -> float:
        return self._of_world.time()

    def clock(self) -> int:
        return self._of_world.clock()

    def _call(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
        if not self.is_over:
            call(*args)


class _LateWorkers(TurnWorkers):
    """Does work some time later, in order."""

    def __init__(self, loop: ManualLoop, disk: Disk, *, syncs: bool) -> None:
        super().__init__(loop.as_loop())
        self._disk = disk
        self._syncs = syncs

    def submit(self, steps: Any, done: Done) -> None:
        """See `Workers`."""
        turn = self._disk.turn

        def reported(failure: Exception | None) -> None:
            if self._syncs:
                self._disk.synced(turn)
            done(failure)

        self._unreported += 1
        self._queue.append((steps, reported))
        self._loop.call_later(self._disk.delay_ms() / 1000, self._work)


class LateEnvironment(VirtualEnvironment):
    """The environment of a seed, with such a disk."""

    def __init__(self, loop: ManualLoop, seed: int, disk: Disk) -> None:
        """Take chance from a seed."""
        super().__init__(loop, seed)
        self._manual = loop
        self._disk = disk

    def workers(self, name: str, threads: int) -> Workers:
        """Return what does work later."""
        return _LateWorkers(self._manual, self._disk, syncs=name == _FLUSHER)
