"""An event loop that runs only when a test turns or advances it."""

import asyncio
import heapq
import math
from collections.abc import Callable
from typing import Any, cast

from tests.unit.server.turns import limited_turn

# A day in November 2023, so that timestamps look like timestamps.
START_MS = 1_700_000_000_000


class Handle:
    """A scheduled call."""

    def __init__(self, at_ms: float, number: int, call: Callable[[], object]) -> None:
        self.at_ms = at_ms
        self.number = number
        self.call = call
        self.cancelled = False

    def __lt__(self, other: "Handle") -> bool:
        return (self.at_ms, self.number) < (other.at_ms, other.number)

    def cancel(self) -> None:
        self.cancelled = True


class ManualLoop:
    """The part of an event loop that the server uses; only `turn` and `advance` run calls.

    A call that raises fails the test, instead of being logged as in a real loop.
    """

    def __init__(self) -> None:
        self.now_ms = float(START_MS)
        self._soon: list[Callable[[], object]] = []
        self._later: list[Handle] = []
        self._number = 0

    def as_loop(self) -> asyncio.AbstractEventLoop:
        # The type has forty more methods, which the server does not call on this loop.
        return cast("asyncio.AbstractEventLoop", self)

    def get_debug(self) -> bool:
        return False

    def call_soon(self, call: Callable[..., object], *args: object, **_: object) -> None:
        self._soon.append(lambda: call(*args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> Handle:
        self._number += 1
        handle = Handle(self.now_ms + delay_s * 1000, self._number, lambda: call(*args))
        heapq.heappush(self._later, handle)
        return handle

    def time(self) -> float:
        return self.now_ms / 1000

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self.as_loop())

    def clock(self) -> int:
        return int(self.now_ms)

    def turn(self) -> None:
        """Run the calls that are due now, and those that they schedule."""
        while self._soon:
            self.turn_once()

    def turn_once(self) -> None:
        """Run the calls that are due now."""
        due, self._soon = self._soon, []
        for call in due:
            with limited_turn():
                call()

    def advance(self, milliseconds: int) -> None:
        """Let time pass and run the calls that become due."""
        self.turn()
        end = self.now_ms + milliseconds
        while self._later and self._later[0].at_ms <= end:
            handle = heapq.heappop(self._later)
            self.now_ms = max(self.now_ms, handle.at_ms)
            if not handle.cancelled:
                handle.call()
            self.turn()
        self.now_ms = end

    def step(self, end_ms: float) -> bool:
        """Run the calls that are due now, or else the next timer that is due by a time.

        Returns:
            Whether there was one; otherwise it is `end_ms` now.
        """
        if self._soon:
            self.turn_once()
            return True
        while self._later and self._later[0].cancelled:
            heapq.heappop(self._later)
        if not self._later or self._later[0].at_ms > end_ms:
            self.now_ms = max(self.now_ms, end_ms)
            return False
        handle = heapq.heappop(self._later)
        self.now_ms = max(self.now_ms, handle.at_ms)
        handle.call()
        return True

    def jump(self) -> None:
        """Let time pass until the next timer, and run the calls that become due."""
        while self._later and self._later[0].cancelled:
            heapq.heappop(self._later)
        assert self._later, "something is waited for that no timer brings"
        self.advance(max(0, math.ceil(self._later[0].at_ms - self.now_ms)))

    def forget(self) -> None:
        """Drop everything that is scheduled, because the process that it belongs to has died."""
        self._soon.clear()
        self._later.clear()

    @property
    def timers(self) -> int:
        """How many timers are armed."""
        return sum(not handle.cancelled for handle in self._later)
