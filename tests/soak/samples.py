"""What a server process uses over time, and whether that stays level.

Memory, threads and sockets must stay level. Files need not: the server keeps those of logs open up
to a bound of its own [log/open-files], and how soon it gets there depends on the load. So files are
compared with the bound: a handle that is never closed again takes them beyond it.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

# The first part of a run fills caches and tables; only the rest must stay level.
WARM_UP_SHARE = 0.4

# What may still grow between the halves of the rest. Memory: fragmentation, and what the load
# itself keeps (segments and offsets). Sockets: those of members that happen to be connected at the
# time.
GROWTH_KIB = 6 * 1024
GROWTH_SOCKETS = 40
GROWTH_THREADS = 2

# Files that are open beside those of logs: standard streams, the lock, the write-ahead log, and
# directories and small files for a moment.
OTHER_FILES = 24


class Sample(NamedTuple):
    """One look at a process.

    Attributes:
        at_s: the time, monotonic.
        rss_kib: resident memory.
        files: open file descriptors of files and directories.
        sockets: all other open file descriptors.
        threads: threads.
        cpu_s: CPU time used so far.
    """

    at_s: float
    rss_kib: int
    files: int
    sockets: int
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
    files, sockets = _handles(f"/proc/{pid}/fd")
    return Sample(
        time.monotonic(),
        int(fields["VmRSS"].split()[0]),
        files,
        sockets,
        int(fields["Threads"]),
        ticks / os.sysconf("SC_CLK_TCK"),
    )


def _handles(directory: str) -> tuple[int, int]:
    """Count the open files, and the sockets, pipes and other handles without a path."""
    files = others = 0
    for name in os.listdir(directory):
        # A handle may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"{directory}/{name}").startswith("/"):
                files += 1
            else:
                others += 1
    return files, others


def _level(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples after the warm-up."""
    return samples[int(len(samples) * WARM_UP_SHARE) :]


def growth(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    """Return how much the median of a value rose between the two halves after the warm-up."""
    level = _level(samples)
    half = len(level) // 2
    assert half, "a plateau needs two samples after the warm-up"
    return median(map(value, level[half:])) - median(map(value, level[:half]))


def not_level(samples: Sequence[Sample], file_bound: int) -> list[str]:
    """Return what grew beyond its bound, one sentence each.

    Args:
        samples: the samples of a run, in their order.
        file_bound: how many files of logs the server may keep open.
    """
    bounds: tuple[tuple[str, Callable[[Sample], float], float], ...] = (
        ("memory (KiB)", lambda each: each.rss_kib, GROWTH_KIB),
        ("sockets", lambda each: each.sockets, GROWTH_SOCKETS),
        ("threads", lambda each: each.threads, GROWTH_THREADS),
    )
    found = []
    for name, value, bound in bounds:
        grown = growth(samples, value)
        if grown > bound:
            found.append(
                f"{name}: the median rose by {grown:,.0f} after the warm-up, over {bound:,}"
            )
    level = _level(samples)
    files = median(each.files for each in level[len(level) // 2 :])
    if files > file_bound + OTHER_FILES:
        found.append(
            f"open files: the median was {files:,.0f} at the end, over the {file_bound} of logs"
            f" and {OTHER_FILES} others"
        )
    return found
