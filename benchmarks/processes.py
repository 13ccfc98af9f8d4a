"""CPU time and memory of a server process, read from /proc.

CPU time covers all threads of the process and of its descendants. It is read from the kernel's
CPU-time clock of the process (`clock_getcpuclockid`), the source of utime and stime in
/proc/<pid>/stat, but in nanoseconds instead of ticks of 10 ms; if that clock is refused, it is read
from /proc/<pid>/stat. Memory is VmRSS and VmHWM of the process itself. On a system without /proc
all functions here return None.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LISTEN = "0A"
# Fields of /proc/<pid>/stat after the command name: state is 0, utime is 11, stime is 12.
_UTIME, _STIME = 11, 12
# The first line of /proc/stat: user nice system idle iowait irq softirq steal.
_IDLE_FIELDS = (3, 4)


def cpu_s(pid: int) -> float | None:
    """Return the CPU seconds that a process and its descendants have used so far."""
    own = _own_cpu_s(pid)
    if own is None:
        return None
    return own + sum(_own_cpu_s(child) or 0.0 for child in descendants(pid))


def _own_cpu_s(pid: int) -> float | None:
    # The id of a process's CPU-time clock, as the C library builds it (CPUCLOCK_SCHED is 2).
    with contextlib.suppress(OSError, AttributeError):
        return time.clock_gettime((~pid << 3) | 2)
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes that a process started, directly or indirectly."""
    found: list[int] = []
    for task in _PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def rss_mib(pid: int | None) -> float | None:
    """Return the resident memory of a process, in MiB."""
    return _status_mib(pid, "VmRSS")


def peak_rss_mib(pid: int | None) -> float | None:
    """Return the highest resident memory of a process since `reset_peak_rss` or its start."""
    return _status_mib(pid, "VmHWM")


def reset_peak_rss(pid: int | None) -> None:
    """Start the peak anew; without the permission for it nothing happens."""
    with contextlib.suppress(OSError):
        (_PROC / str(pid) / "clear_refs").write_text("5")


def _status_mib(pid: int | None, field: str) -> float | None:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    return None


def command_name(pid: int) -> str:
    """Return the name of a process ("java"), or "" when it cannot be read."""
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def listening_pid(port: int) -> int | None:
    """Return the id of the process that listens on a TCP port of this machine."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    for directory in _PROC.glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for descriptor in directory.iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in inodes:
                        return int(directory.parent.name)
    return None


def machine_busy_s() -> float | None:
    """Return the seconds all CPUs together have been busy since boot, stolen time included."""
    try:
        fields = (_PROC / "stat").read_text().partition("\n")[0].split()[1:9]
    except OSError:
        return None
    ticks = sum(int(field) for i, field in enumerate(fields) if i not in _IDLE_FIELDS)
    return ticks / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a measured time; CPU figures are None where they are unknown.

    `others_share` is the number of CPUs that neither the server nor the generator used: the noise
    of the machine.
    """

    seconds: float
    server_cpu_s: float | None
    generator_cpu_s: float
    others_share: float | None


def _generator_cpu_s() -> float:
    """Return the CPU time of this process and of the tools that it has run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class Stretch:
    """Reads all clocks at the beginning and at the end of a measured time."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._server = cpu_s(pid) if pid is not None else None
        self._machine = machine_busy_s()
        self._generator = _generator_cpu_s()
        self._began = time.perf_counter()

    def end(self) -> Usage:
        """Read the clocks again and return the differences."""
        seconds = time.perf_counter() - self._began
        generator = _generator_cpu_s() - self._generator
        now = cpu_s(self._pid) if self._pid is not None else None
        server = now - self._server if now is not None and self._server is not None else None
        others = None
        machine = machine_busy_s()
        if machine is not None and self._machine is not None and server is not None:
            others = max(0.0, machine - self._machine - server - generator) / seconds
        return Usage(seconds, server, generator, others)
