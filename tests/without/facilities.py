"""What can be taken away from a process before it imports the product.

Modules become such that cannot be imported, names are deleted, and files of the system cannot be
found. The standard library has imported what it needs by then. A process with all of Windows' gaps
is no Windows: its paths are those of POSIX.
"""

import builtins
import errno
import os
import select
import signal
import sys
import time
from asyncio import unix_events
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.without.open_files import refused_calls

# Whether a name of the operating system is one of these files decides whether it is found.
_PROC = "/proc/"


def _hide_module(name: str) -> None:
    # An import of it raises ImportError.
    sys.modules[name] = None  # type: ignore[assignment]


def _hide_names(module: Any, *names: str) -> None:
    for name in names:
        delattr(module, name)


def _hide_files() -> None:
    """Let /proc and /dev/fd be missing."""

    def without(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if isinstance(path, str) and (path.startswith(_PROC) or path == "/dev/fd"):
                raise FileNotFoundError(errno.ENOENT, "this system has no such file", path)
            return call(path, *arguments, **named)

        return wrapped

    for module, name in ((builtins, "open"), (os, "open"), (os, "listdir")):
        setattr(module, name, without(getattr(module, name)))


def _refuse_open_files() -> None:
    for name, call in refused_calls().items():
        setattr(os, name, call)


def _hide_signal_handlers() -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop: Any = unix_events._UnixSelectorEventLoop  # type: ignore[attr-defined, unused-ignore]
    loop.add_signal_handler = refuse


def _replace_locks() -> None:
    """Offer the locks of Windows instead of those of POSIX."""
    sys.modules["msvcrt"] = import_module("tests.without.msvcrt")
    _hide_module("fcntl")


def _hide_mallopt() -> None:
    import ctypes

    found = ctypes.CDLL

    def load(name: str | None, *arguments: Any, **named: Any) -> Any:
        if name is None:
            raise TypeError("this system has no name for the process itself")
        return found(name, *arguments, **named)

    setattr(ctypes, "CDLL", load)  # noqa: B010 - the type checkers know it as a class


FACILITIES: dict[str, Callable[[], None]] = {
    "uvloop": lambda: _hide_module("uvloop"),
    "resource": lambda: _hide_module("resource"),
    "fcntl": _replace_locks,
    "open-files": _refuse_open_files,
    "proc": _hide_files,
    "mallopt": _hide_mallopt,
    "fdatasync": lambda: _hide_names(os, "fdatasync"),
    "pread": lambda: _hide_names(os, "pread", "pwrite"),
    "directories": lambda: _hide_names(os, "O_DIRECTORY"),
    "boottime": lambda: _hide_names(time, "CLOCK_BOOTTIME"),
    "thread-clocks": lambda: _hide_names(time, "pthread_getcpuclockid"),
    "poll": lambda: _hide_names(select, "poll"),
    "statvfs": lambda: _hide_names(os, "statvfs"),
    "killpg": lambda: _hide_names(os, "killpg"),
    "signals": lambda: _hide_names(signal, "SIGHUP", "SIGCONT", "SIGSTOP"),
    "signal-handlers": _hide_signal_handlers,
}

# macOS has fcntl, poll and signals; Windows lacks all of it.
SYSTEMS: dict[str, tuple[str, ...]] = {
    "macos": ("proc", "mallopt", "fdatasync", "boottime", "thread-clocks"),
    "windows": tuple(FACILITIES),
}


def environment_without(names: Sequence[str]) -> dict[str, str]:
    """Return the variables of a process from which facilities are taken away."""
    root = Path(__file__).parents[2]
    places = [str(root / "tests" / "without" / "start"), str(root)]
    return {**os.environ, "TESTS_WITHOUT": " ".join(names), "PYTHONPATH": os.pathsep.join(places)}


def take_away(names: Sequence[str]) -> None:
    """Take facilities away from this process."""
    for name in names:
        FACILITIES[name]()
