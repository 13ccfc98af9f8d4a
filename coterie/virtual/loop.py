"""An event loop in virtual time, for a program that has no other loop."""

import asyncio
import selectors
from typing import Any

from coterie.virtual.selector import JumpingSelector, microseconds_behind

_MICROSECONDS = 1_000_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when nothing else is left to do."""

    def __init__(self) -> None:
        """Begin at the time 0."""
        self._elapsed_us = 0
        selector: Any = JumpingSelector(selectors.DefaultSelector(), self)
        super().__init__(selector)

    def time(self) -> float:
        """Return the seconds since the beginning."""
        return self._elapsed_us / _MICROSECONDS

    def jump(self, seconds: float) -> None:
        """Move just behind the next timer; see `JumpingClock`."""
        self._elapsed_us += microseconds_behind(seconds)

    def check_conditions(self) -> bool:
        """Return False: there are no conditions; see `JumpingClock`."""
        return False

    def thread_time_s(self) -> float:
        """Return 0: there are no other threads; see `JumpingClock`."""
        return 0.0
