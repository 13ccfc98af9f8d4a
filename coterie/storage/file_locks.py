"""Locks on files of the operating system, which end with the process, however it ends.

POSIX systems have two kinds of locks, and both are taken [log/directory-lock]. Windows has neither,
but locks ranges of bytes.
"""

import errno
import os
from importlib import import_module
from typing import Any

# How Windows says that another process has locked the bytes, and POSIX that it has locked the file.
# Wine gives no number: 0.
_IS_HELD = (errno.EACCES, errno.EAGAIN, 0)


class OsLock:
    """An open lock file. The kernel releases the locks when the process ends, however it ends."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def held(self) -> bool:
        """See `Lock`."""
        assert self._descriptor >= 0, "a lock that was released is not held"
        ours = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)

    def release(self) -> None:
        """See `Lock`."""
        assert self._descriptor >= 0, "a lock is released once"
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def lock_file(descriptor: int, path: str) -> OsLock | None:
    """Lock an open file of a path; return None, and close it, if another holder has locked it."""
    try:
        _lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _IS_HELD:
            return None
        raise
    return OsLock(descriptor, path)


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:
        # A module of Windows only.
        msvcrt: Any = import_module("msvcrt")
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
