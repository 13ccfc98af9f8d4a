"""The server's clock: epoch milliseconds that never jump.

The wall clock is read once, at the start; from then on time is what the monotonic clock adds. A
wall clock set back must not expire sessions, and one set forward must not either.
"""

import time
from collections.abc import Callable


def system_clock() -> Callable[[], int]:
    """A function that tells the time in epoch milliseconds, from now on without jumps."""
    read = time.monotonic_ns
    offset_ns = time.time_ns() - read()

    def now_ms() -> int:
        return (read() + offset_ns) // 1_000_000

    return now_ms
