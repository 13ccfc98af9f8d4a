"""The clocks of a process. Each read of a connection asks for the time, so they are compiled."""

import time
from collections.abc import Callable


def system_clock() -> Callable[[], int]:
    """Return a function that returns the time in epoch milliseconds and never jumps.

    The wall clock is read once, here. From then on the monotonic clock is added to it: setting the
    wall clock back or forward must not expire sessions. While the machine is suspended it stands
    still, so that the sessions of clients which were suspended too go on.
    """
    read = time.monotonic_ns
    offset_ns = time.time_ns() - read()

    def now_ms() -> int:
        return (read() + offset_ns) // 1_000_000

    return now_ms


def wall_clock() -> int:
    """Return the time of the machine, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
