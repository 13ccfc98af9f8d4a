"""The selector of an event loop in virtual time: it moves the clock instead of waiting."""

import selectors
from typing import Any, Protocol

# After so many turns without a jump time goes on all the same, by a microsecond a turn. A client
# that waits for a time in a loop without a pause would wait forever.
_TURNS_OF_A_MOMENT = 10_000
_MICROSECONDS = 1_000_000


def microseconds_behind(seconds: float) -> int:
    """Return how far a clock that counts microseconds moves to be behind a timer.

    Real time has always gone on when a timer fires, and clients compare the two with `>`: aiokafka
    commits only if it is later than its deadline. A time as a fraction may be a little less than
    the whole number of microseconds that it stands for, so it is rounded and not cut off.
    """
    return round(seconds * _MICROSECONDS) + 1


class JumpingClock(Protocol):
    """A clock that moves only when it is moved."""

    def jump(self, seconds: float) -> None:
        """Move just behind the time that is so many seconds away."""

    def check_conditions(self) -> bool:
        """End the waits whose condition holds; return whether there are any."""

    def thread_time_s(self) -> float:
        """Return for how long to wait in real time for work in other threads; 0 for none."""


class JumpingSelector:
    """The selector of an event loop: instead of waiting for a timer it moves the clock to it."""

    def __init__(self, real: selectors.BaseSelector, clock: JumpingClock) -> None:
        """Put a clock in front of a selector."""
        self.real = real
        self._clock = clock
        # How many turns the loop has made since the latest jump.
        self._turns = 0

    def select(self, timeout: float | None = None) -> Any:
        """Return events of real files, or move the clock by the time that would be waited for."""
        events = self.real.select(0)
        if events or timeout == 0:
            self._turns += 1
            if self._turns > _TURNS_OF_A_MOMENT:
                self._clock.jump(0)
            return events
        self._turns = 0
        if self._clock.check_conditions():
            return []
        if timeout is None:
            # Nothing is due, so only another thread can go on.
            return self.real.select(None)
        real_s = self._clock.thread_time_s()
        if real_s:
            events = self.real.select(real_s)
            if events:
                return events
        self._clock.jump(timeout)
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)
