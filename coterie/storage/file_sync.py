"""Syncs of files and directories: what was written survives a loss of power.

Each operating system has a call of its own that promises this, and one that does not.
"""

import errno
import os

# A file system that cannot flush the cache of its drive, such as one on a network, refuses it so.
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


def sync_file(descriptor: int) -> None:
    """Write the data and size of a file to the disk."""
    if hasattr(os, "fdatasync"):
        # This leaves out only the times of the file, which we do not use.
        os.fdatasync(descriptor)
    elif not _flush_drive(descriptor):
        os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Write the names in a directory to the disk."""
    if not hasattr(os, "O_DIRECTORY"):
        # Windows cannot open a directory. NTFS has a journal of its names, which is written in its
        # own time.
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if not _flush_drive(descriptor):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_drive(descriptor: int) -> bool:
    """Write a file through the cache of its drive; return whether the system can.

    On macOS fsync leaves the data in that cache.
    """
    try:
        import fcntl
    except ImportError:
        return False
    command = getattr(fcntl, "F_FULLFSYNC", None)
    if command is None:
        return False
    try:
        fcntl.fcntl(descriptor, command)
    except OSError as error:
        # Any other error must not be followed by a second sync, which may succeed [log/fail-stop].
        if error.errno not in _NOT_SUPPORTED:
            raise
        return False
    return True
