"""The few operations of a file system that storage uses, and the real one.

Paths are strings with `/`; files are read and written at positions, so a handle has no state of its
own. A call does all of what it was asked or raises OSError: a short write is continued, an
interrupted call is made again (by Python itself, PEP 475), and only the end of the file makes a
read shorter than asked for. This is the only module of the inner packages that touches the
operating system. Fakes that tear, reorder and fail stand in the tests; `memory_filesystem.py` is
the one behind `--data-dir :memory:`.
"""

import errno
import fcntl
import os
from typing import Protocol

# As Kafka's own files: the owner writes, the rest is up to the umask.
_FILE_MODE = 0o644
# Linux makes a new one at each boot; no other system has it.
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
# A uuid and the end of its line.
_BOOT_ID_BYTES = 37


class File(Protocol):
    """An open file."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only where the file ends."""

    def write(self, position: int, data: bytes) -> None:
        """All of `data` at `position`. After an OSError any part of it may have been written."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or fill it up with zeros."""

    def size(self) -> int:
        """The file's size in bytes."""

    def sync(self) -> None:
        """Return when what was written survives a loss of power. After an error, never call again.

        The one operation that may run in another thread, beside reads and writes.

        Raises:
            FileNotFoundError: the file was removed meanwhile; what is in it goes with the handle.
        """

    def close(self) -> None:
        """Give the handle back."""


class Lock(Protocol):
    """A lock that is held."""

    def held(self) -> bool:
        """Whether the lock's file is still the one of that name: nobody else can have taken it."""

    def release(self) -> None:
        """Let others have it."""


class FileSystem(Protocol):
    """A file system. Everything raises OSError with its errno, FileNotFoundError among them."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing."""

    def create(self, path: str) -> File:
        """Open a new, empty file; one of that name is emptied."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""

    def size(self, path: str) -> int:
        """The size of a file in bytes."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, in no order."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it that are missing; fine where it exists."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; a file of that name is replaced, atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Return when names made, changed and removed in the directory survive a loss of power."""

    def lock(self, path: str) -> Lock | None:
        """Lock a file for this holder alone, making it if needed. None when another one has it."""

    def boot_id(self) -> str:
        """A name for the time since the machine was started; "" where there is none to be had.

        Whoever finds the name that was noted earlier knows that power was not lost in between.
        """


def _sync_file(descriptor: int) -> None:
    """Bring a file's data, and its size with it, to the medium."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        # On macOS fsync stops at the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        # Leaves out only the times of the file, which nobody here reads.
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, position: int, length: int) -> bytes:
        """See `File`."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        # A short read that is not the end of the file is rare: a signal, or a file system's page.
        parts = [data]
        got = len(data)
        while got < length:
            data = os.pread(self._descriptor, length - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write(self, position: int, data: bytes) -> None:
        """See `File`."""
        written = os.pwrite(self._descriptor, data, position)
        while written < len(data):
            more = os.pwrite(self._descriptor, memoryview(data)[written:], position + written)
            if more == 0:
                raise OSError(errno.EIO, "a write made no progress")
            written += more

    def truncate(self, size: int) -> None:
        """See `File`."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """See `File`."""
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        """See `File`."""
        _sync_file(self._descriptor)
        # Somebody may have removed the data directory: the kernel syncs what no name leads to.
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use")

    def close(self) -> None:
        """See `File`."""
        os.close(self._descriptor)


class OsLock:
    """An open lock file; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def held(self) -> bool:
        """See `Lock`."""
        ours = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)

    def release(self) -> None:
        """See `Lock`."""
        os.close(self._descriptor)


class OsFileSystem:
    """The operating system's files."""

    def open(self, path: str) -> OsFile:
        """See `FileSystem`."""
        return OsFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def create(self, path: str) -> OsFile:
        """See `FileSystem`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return OsFile(os.open(path, flags, _FILE_MODE))

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """See `FileSystem`."""
        return os.stat(path).st_size

    def list(self, directory: str) -> list[str]:
        """See `FileSystem`."""
        return os.listdir(directory)

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsLock | None:
        """See `FileSystem`.

        Two locks in one: POSIX's, which is the one Kafka takes and so keeps a Kafka out, and
        flock's, which also keeps out a second broker of this process.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return None
            raise
        return OsLock(descriptor, path)

    def boot_id(self) -> str:
        """See `FileSystem`."""
        try:
            descriptor = os.open(_BOOT_ID_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(descriptor, _BOOT_ID_BYTES).decode("ascii").strip()
        finally:
            os.close(descriptor)
