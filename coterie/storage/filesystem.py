"""The operations of a file system that storage uses, and their implementation for the real one.

Paths are strings with `/`. Files are read and written at positions, so a handle has no state of its
own. A call does everything that it was asked to do or raises OSError: a short write is continued,
an interrupted call is repeated (by Python itself, PEP 475), and a read is shorter than requested
only at the end of the file.

This module, `windows_files`, `file_locks` and `file_sync` are the only ones of the pure packages
that call the operating system; docs/platforms.md has what differs between systems, and
`system_files` chooses. `memory_filesystem.py` is the implementation for `--data-dir :memory:`; the
tests have others that fail, tear writes and lose them.
"""

import errno
import os
from typing import Protocol

from coterie.storage.file_locks import OsLock, lock_file
from coterie.storage.file_sync import sync_directory, sync_file

# The mode of Kafka's files. The umask may restrict it.
_FILE_MODE = 0o644
# The mode of files with secrets.
_PRIVATE_MODE = 0o600
# The text of the error about a file that has no name any more.
REMOVED = "the file was removed while it was in use"
# Linux has a new id after each boot. Other systems do not have this file.
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
# A UUID and a line feed.
_BOOT_ID_BYTES = 37


class File(Protocol):
    """An open file."""

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`, fewer only at the end of the file."""

    def write(self, position: int, data: bytes) -> None:
        """Write `data` at `position`. After an OSError any part of it may have been written."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""

    def size(self) -> int:
        """Return the size in bytes."""

    def sync(self) -> None:
        """Return when everything that was written survives a loss of power.

        This may run in another thread, while the file is read and written. It must not be repeated
        after an error [log/fail-stop].

        Raises:
            FileNotFoundError: the file was removed, so its contents are lost with the handle.
        """

    def close(self) -> None:
        """Release the handle."""


class Lock(Protocol):
    """A lock that is held."""

    def held(self) -> bool:
        """Return whether the lock file is still the one of that name, so that the lock counts."""

    def release(self) -> None:
        """Release the lock."""


class FileSystem(Protocol):
    """A file system. Every method may raise OSError with an errno, and its subclasses."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing."""

    def create(self, path: str, *, private: bool = False) -> File:
        """Open a new, empty file. An existing file is emptied.

        Args:
            path: the file.
            private: whether only the owner may read a new file.
        """

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that name."""

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it that are missing. It may exist already."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory. An existing target file is replaced atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Return when the changes to the directory's names survive a loss of power."""

    def lock(self, path: str) -> Lock | None:
        """Lock a file, which is made if it is missing; return None if another holder has it."""

    def boot_id(self) -> str:
        """Return an id of the time since the machine was started, "" if the system has none.

        If it equals an id that was stored earlier, power was not lost in between.
        """


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
        # A short read before the end of the file is rare. Some file systems return one at the end
        # of a page, and a signal may cause one.
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
        sync_file(self._descriptor)
        # The kernel also syncs a file whose name was removed, for example with the data directory.
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, REMOVED)

    def close(self) -> None:
        """See `File`."""
        # The system gives the number to the next file that is opened, which must not be written to
        # by mistake.
        assert self._descriptor >= 0, "a file is closed once"
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class OsFileSystem:
    """The files of a POSIX system."""

    def open(self, path: str) -> File:
        """See `FileSystem`."""
        return OsFile(os.open(path, os.O_RDWR))

    def create(self, path: str, *, private: bool = False) -> File:
        """See `FileSystem`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        return OsFile(os.open(path, flags, open_mode(private=private)))

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
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        sync_directory(path)

    def lock(self, path: str) -> OsLock | None:
        """See `FileSystem`, and [log/directory-lock] for why there are two locks."""
        return lock_file(os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE), path)

    def boot_id(self) -> str:
        """See `FileSystem`."""
        try:
            descriptor = os.open(_BOOT_ID_FILE, os.O_RDONLY)
        except OSError:
            return ""
        try:
            return os.read(descriptor, _BOOT_ID_BYTES).decode("ascii").strip()
        finally:
            os.close(descriptor)


def open_mode(*, private: bool) -> int:
    """Return the mode of a new file."""
    return _PRIVATE_MODE if private else _FILE_MODE


def make_directories(filesystem: FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory, and those above it that are missing.

    With `durable` the new names survive a loss of power.
    """
    parents = []
    missing = path
    while missing and not filesystem.exists(missing):
        above, _, _ = missing.rpartition("/")
        parents.append(above or ("/" if missing.startswith("/") else "."))
        missing = above
    filesystem.make_directory(path)
    if durable:
        for parent in parents:
            filesystem.sync_directory(parent)
