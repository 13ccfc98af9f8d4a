"""What a server process uses over time, and whether that stays level."""

import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

# The first part of a run fills caches and tables; only the rest must stay level.
WARM_UP_SHARE = 0.4

# What may still grow between the halves of the rest. Memory: fragmentation, and what the load
# itself keeps (segments and offsets). Handles and threads: those of members that happen to be
# connected at the time.
GROWTH_KIB = 6 * 1024
GROWTH_HANDLES = 40
GROWTH_THREADS = 2


class Sample(NamedTuple):
    """One look at a process.

    Attributes:
        at_s: the time, monotonic.
        rss_kib: resident memory.
        handles: open file descriptors.
        threads: threads.
        cpu_s: CPU time used so far.
    """

    at_s: float
    rss_kib: int
    handles: int
    threads: int
    cpu_s: float


def sample(pid: int) -> Sample:
    """Read what a process uses from /proc."""
    fields = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            name, _, value = line.partition(":")
            fields[name] = value
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        # The name of the command, in brackets, may contain spaces.
        times = stat.read().rpartition(")")[2].split()
    ticks = int(times[11]) + int(times[12])
    return Sample(
        time.monotonic(),
        int(fields["VmRSS"].split()[0]),
        len(os.listdir(f"/proc/{pid}/fd")),
        int(fields["Threads"]),
        ticks / os.sysconf("SC_CLK_TCK"),
    )


def growth(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    """Return how much the median of a value rose between the two halves after the warm-up."""
    level = samples[int(len(samples) * WARM_UP_SHARE) :]
    half = len(level) // 2
    assert half, "a plateau needs two samples after the warm-up"
    return median(map(value, level[half:])) - median(map(value, level[:half]))


def not_level(samples: Sequence[Sample]) -> list[str]:
    """Return what grew beyond its bound, one sentence each."""
    bounds: tuple[tuple[str, Callable[[Sample], float], float], ...] = (
        ("memory (KiB)", lambda each: each.rss_kib, GROWTH_KIB),
        ("open files", lambda each: each.handles, GROWTH_HANDLES),
        ("threads", lambda each: each.threads, GROWTH_THREADS),
    )
    found = []
    for name, value, bound in bounds:
        grown = growth(samples, value)
        if grown > bound:
            found.append(
                f"{name}: the median rose by {grown:,.0f} after the warm-up, over {bound:,}"
            )
    return found
