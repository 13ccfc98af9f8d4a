"""What the process of a server asks of its operating system, and what it does without an answer.

Linux has all of it. macOS and Windows lack some; docs/platforms.md has the table. What is missing
is found by its name and not by that of the system, so a test can take it away.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# The directories that list the open files of a process: of Linux, and of macOS.
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")


def run_on_fastest_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop: of uvloop, or of asyncio where there is no uvloop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def on_signals(names: Sequence[str], call: Callable[..., object], *arguments: object) -> None:
    """Call a function on the running loop when the process gets one of some signals.

    Args:
        names: of the signals; those that the system does not have are left out.
        call: the function.
        arguments: of the function.
    """
    loop = asyncio.get_running_loop()
    for number in [getattr(signal, name) for name in names if hasattr(signal, name)]:
        try:
            loop.add_signal_handler(number, call, *arguments)
        except NotImplementedError:
            # The loops of Windows. The handler runs between two steps of the main thread, which
            # the signal wakes.
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(call, *arguments))


def age_s(started: float) -> float:
    """Return how long this process has been running.

    The time includes the start of the interpreter and all imports, because users wait for these
    too. Where the system does not provide it, this is the time since `started`.
    """
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            # The name of the process is in parentheses and may contain spaces. Behind it the 20th
            # field is the time of the start, in clock ticks since the machine's.
            ticks = int(file.read().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return time.monotonic() - started


def cpu_clock(thread: int) -> Callable[[], float]:
    """Return a clock that counts the seconds a thread has used of a processor.

    Where the system has no such clock, it counts those of all threads.
    """
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of is None:
        return time.process_time
    clock_id = clock_of(thread)
    return lambda: time.clock_gettime(clock_id)


def cpu_s() -> float:
    """Return how many seconds this process has used of processors."""
    return time.process_time()


def resident_bytes() -> int | None:
    """Return how much memory this process has at present, None if the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def open_files() -> int | None:
    """Return how many files and sockets this process has open, None if the system does not say."""
    for directory in _OPEN_FILES:
        try:
            return len(os.listdir(directory))
        except OSError:
            continue
    return None


def volume_bytes(path: str) -> tuple[int, int]:
    """Return the size of the volume of a path, and what of it a user without rights may fill.

    Raises:
        OSError: there is no such path.
    """
    if hasattr(os, "statvfs"):
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
    # Windows. The module is in the standard library and costs every start on Linux a millisecond.
    import shutil

    usage = shutil.disk_usage(path)
    return usage.total, usage.free
