"""Virtual time: a heap of calls, chance from one seed, and a trace that identifies a run.

Time is counted in microseconds from the start of the run. Calls at one moment are made in the order
in which they were scheduled. Each subject draws from a stream of its own, which depends only on the
seed and its name: the script of a scenario is therefore the same for every machine.
"""

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

MS = 1_000
SECOND = 1_000_000
# More calls than this at one moment are an endless loop.
_MAX_CALLS_AT_ONCE = 2_000_000


class Violation(Exception):  # noqa: N818 - it is what a run finds, not an error of the program
    """A run has broken a rule that holds for every run."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def stream(seed: int, name: str) -> Random:
    """Return the source of chance of one subject."""
    return Random(f"{seed} {name}")  # noqa: S311 - repeatable chance, no secrets


class World:
    """The time of one run and what is to happen in it.

    Attributes:
        seed: the seed of the run.
        now_us: the time.
        trace: the lines of the run, if they are kept.
        has_details: whether requests and nodes are in the trace, too.
    """

    def __init__(self, seed: int, *, keep_trace: bool = False, keep_details: bool = False) -> None:
        self.seed = seed
        self.now_us = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self.has_details = keep_trace and keep_details
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._streams: dict[str, Random] = {}

    def stream(self, name: str) -> Random:
        """Return the source of chance of one subject."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = stream(self.seed, name)
        return found

    def at(self, at_us: int, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call; a time that has passed means now."""
        self._serial += 1
        heappush(self._heap, (max(at_us, self.now_us), self._serial, call, arguments))

    def after(self, delay_us: int, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call after a delay."""
        self._serial += 1
        heappush(self._heap, (self.now_us + delay_us, self._serial, call, arguments))

    def note(self, *words: object) -> None:
        """Add a line to the trace."""
        line = f"{self.now_us} {' '.join(map(str, words))}\n"
        self._hash.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def detail(self, *words: object) -> None:
        """Add a line to a trace with details. It is no part of what identifies a run."""
        if self.has_details and self.trace is not None:
            self.trace.append(f"{self.now_us} {' '.join(map(str, words))}\n")

    @property
    def digest(self) -> str:
        """The hash of the trace so far."""
        return self._hash.hexdigest()

    def run_until(self, end_us: int) -> None:
        """Make all calls up to a time.

        Raises:
            Violation: calls at one moment do not end.
        """
        heap = self._heap
        at_once = 0
        while heap and heap[0][0] <= end_us:
            at_us, _, call, arguments = heappop(heap)
            at_once = at_once + 1 if at_us == self.now_us else 0
            if at_once > _MAX_CALLS_AT_ONCE:
                raise Violation("endless-loop", f"calls at {at_us} us do not end")
            self.now_us = at_us
            call(*arguments)
        self.now_us = end_us
