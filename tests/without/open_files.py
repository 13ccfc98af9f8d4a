"""Calls that refuse to change the names of open files, as Windows does."""

import errno
import os
from collections.abc import Callable
from typing import Any

# As they are before any of it is taken away.
_LIST, _READ_LINK, _REAL_PATH = os.listdir, os.readlink, os.path.realpath
_NAMES = ("rename", "replace", "unlink", "remove", "rmdir")


def refused_calls() -> dict[str, Callable[..., Any]]:
    """Return calls of `os` that refuse to rename, replace and remove open files, as Windows does.

    Files count that this process has open. A directory is also refused if a file below it is open.
    What is named relative to a directory is left alone: only the cleaning up of tests does that.
    """

    def open_paths() -> list[str]:
        paths = []
        for name in _LIST("/proc/self/fd"):
            try:
                paths.append(_READ_LINK(f"/proc/self/fd/{name}"))
            except FileNotFoundError:
                # The directory itself, or a file that another thread has closed.
                continue
        return paths

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*paths: Any, **named: Any) -> Any:
            if not named:
                names = [_REAL_PATH(path) for path in paths]
                for found in open_paths():
                    if any(found == name or found.startswith(f"{name}/") for name in names):
                        raise PermissionError(errno.EACCES, "a file is in use", paths[0])
            return call(*paths, **named)

        return wrapped

    return {name: guarded(getattr(os, name)) for name in _NAMES}
