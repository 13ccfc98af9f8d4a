"""The file system of Windows, which refuses what storage does with files that are open.

There an open file cannot be renamed, replaced or removed, and a directory with an open file in it
cannot be renamed (MS-FSA, 2.1.4.2 and 2.1.5.15). So this file system keeps a list of its open
files. Before such a call it closes their handles, and a file opens its handle again when it is used
next, under the name that it has then. To storage this looks like POSIX, except that a removed file
cannot be read any more. (Handles that share their deletion would not do: a directory with open
files still keeps its name, and so does a removed file on some file systems, until they are closed.)

Other programs, such as virus scanners, open new files for a moment. A call that is refused is
repeated for about a second, in threads other than the main one for ten.

Invariants:
* A file has no handle while its name changes, and is opened by its name at that time.
* Unsynced bytes are synced before a handle is closed for a new name. If that fails, so does every
  later sync of the file [log/fail-stop].
* Locks are taken in this order: names of the file system, then of a file `syncing`, then `turn`.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from coterie.storage.file_locks import OsLock
from coterie.storage.file_sync import sync_file
from coterie.storage.filesystem import REMOVED, OsFileSystem, open_mode

# Windows translates the ends of lines without it.
_BYTES: int = getattr(os, "O_BINARY", 0)
# The pauses before a refused call is repeated: a second in sum, since clients may wait. Scanners
# need milliseconds for a small file.
_PAUSES_S = tuple(0.001 * 2**doubling for doubling in range(10))
# Further ones in threads that no client waits for, such as those that remove cleaned segments.
_LATER_PAUSES_S = tuple(1.0 for _ in range(9))
# Paths with this prefix may be longer than 260 characters, and `nul.x-0` is a name like any other.
_ANY_NAME = "\\\\?\\"


class WindowsFile:
    """An open file, whose handle is closed for a moment while its name changes.

    Windows has no calls that read and write at a position. The position is that of the handle, so
    one thread at a time reads or writes. A sync runs beside them.

    Attributes:
        path: its name now.
        syncing: held during a sync.
        turn: held while the handle is used otherwise.
    """

    __slots__ = (
        "_descriptor",
        "_error",
        "_files",
        "_has_unsynced",
        "_is_closed",
        "_is_removed",
        "path",
        "syncing",
        "turn",
    )

    def __init__(self, files: "WindowsFileSystem", path: str, descriptor: int) -> None:
        """Use `WindowsFileSystem.open` or `create`."""
        self.path = path
        self.syncing = threading.Lock()
        self.turn = threading.Lock()
        self._files = files
        # -1 while the file has no handle.
        self._descriptor = descriptor
        self._has_unsynced = False
        self._error: OSError | None = None
        self._is_closed = False
        self._is_removed = False

    def read(self, position: int, length: int) -> bytes:
        """See `File`."""
        parts = []
        with self.turn:
            descriptor = self._handle()
            os.lseek(descriptor, position, os.SEEK_SET)
            while length > 0 and (data := os.read(descriptor, length)):
                parts.append(data)
                length -= len(data)
        return b"".join(parts)

    def write(self, position: int, data: bytes) -> None:
        """See `File`."""
        rest = memoryview(data)
        with self.turn:
            descriptor = self._handle()
            self._has_unsynced = True
            os.lseek(descriptor, position, os.SEEK_SET)
            while rest:
                written = os.write(descriptor, rest)
                if written == 0:
                    raise OSError(errno.EIO, "a write made no progress")
                rest = rest[written:]

    def truncate(self, size: int) -> None:
        """See `File`."""
        with self.turn:
            descriptor = self._handle()
            self._has_unsynced = True
            os.ftruncate(descriptor, size)

    def size(self) -> int:
        """See `File`."""
        with self.turn:
            return os.fstat(self._handle()).st_size

    def sync(self) -> None:
        """See `File`."""
        with self.syncing:
            with self.turn:
                descriptor = self._handle()
                if self._error is not None:
                    raise self._error
                # What is written from now on may not be covered.
                self._has_unsynced = False
            self._sync(descriptor)
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """See `File`."""
        self._files.forget(self)
        with self.syncing, self.turn:
            assert not self._is_closed, "a file is closed once"
            self._is_closed = True
            self._close_handle()

    def park(self) -> None:
        """Close the handle for a new name. `syncing` and `turn` are held until it is there."""
        if self._descriptor >= 0 and self._has_unsynced:
            self._has_unsynced = False
            self._sync(self._descriptor)
        self._close_handle()

    def lose_name(self) -> None:
        """Note that the file was removed. `syncing` and `turn` are held."""
        self._is_removed = True
        self._close_handle()

    def _handle(self) -> int:
        """Return the descriptor, opened again if need be. `turn` is held."""
        assert not self._is_closed, "a file that was closed is not used"
        if self._is_removed:
            raise FileNotFoundError(errno.ENOENT, REMOVED, self.path)
        if self._descriptor < 0:
            self._descriptor = _patiently(_open, self.path, os.O_RDWR | _BYTES, 0)
        return self._descriptor

    def _sync(self, descriptor: int) -> None:
        try:
            sync_file(descriptor)
        except OSError as error:
            self._error = error

    def _close_handle(self) -> None:
        # The system gives the number to the next file that is opened, which must not be written to
        # by mistake.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class WindowsFileSystem(OsFileSystem):
    """The files of Windows."""

    def __init__(self) -> None:
        """No file is open yet."""
        self._names = threading.Lock()
        self._open_files: set[WindowsFile] = set()

    def open(self, path: str) -> WindowsFile:
        """See `FileSystem`."""
        return self._opened(path, os.O_RDWR | _BYTES, 0)

    def create(self, path: str, *, private: bool = False) -> WindowsFile:
        """See `FileSystem`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | _BYTES
        return self._opened(path, flags, open_mode(private=private))

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return super().exists(_full(path))

    def size(self, path: str) -> int:
        """See `FileSystem`."""
        return super().size(_full(path))

    def list(self, directory: str) -> list[str]:
        """See `FileSystem`."""
        full = _full(directory)
        try:
            return super().list(full)
        except OSError as error:
            raise _no_directory(full, error) from error

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        super().make_directory(_full(path))

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        _patiently(self._rename, _full(source), _full(target))

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        _patiently(self._remove, _full(path))

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        _patiently(os.rmdir, _full(path))

    def lock(self, path: str) -> OsLock | None:
        """See `FileSystem`."""
        return super().lock(_full(path))

    def forget(self, file: WindowsFile) -> None:
        """Take a file from the open ones: it is closed next."""
        with self._names:
            self._open_files.discard(file)

    def _opened(self, path: str, flags: int, mode: int) -> WindowsFile:
        file: WindowsFile = _patiently(self._try_to_open, _full(path), flags, mode)
        return file

    def _try_to_open(self, path: str, flags: int, mode: int) -> WindowsFile:
        # No name changes between the opening and the entry in the list.
        with self._names:
            file = WindowsFile(self, path, _open(path, flags, mode))
            self._open_files.add(file)
        return file

    def _rename(self, old: str, new: str) -> None:
        with self._names, ExitStack() as held:
            moved = self._hold(held, old, with_below=True)
            replaced = () if _same(old, new) else self._hold(held, new, with_below=False)
            for file in (*moved, *replaced):
                # If the call is refused, each opens its handle again when it is used next.
                file.park()
            os.replace(old, new)
            for file in moved:
                file.path = new + file.path[len(old) :]
            self._lost(replaced)

    def _remove(self, path: str) -> None:
        with self._names, ExitStack() as held:
            removed = self._hold(held, path, with_below=False)
            for file in removed:
                file.park()
            os.unlink(path)
            self._lost(removed)

    def _hold(self, held: ExitStack, path: str, *, with_below: bool) -> tuple[WindowsFile, ...]:
        """Return the open files of a name, or also those in that directory; nobody uses them."""
        wanted = os.path.normcase(path)
        below = wanted + os.sep
        found = []
        for file in self._open_files:
            name = os.path.normcase(file.path)
            if name == wanted or (with_below and name.startswith(below)):
                found.append(file)
                held.enter_context(file.syncing)
                held.enter_context(file.turn)
        return tuple(found)

    def _lost(self, files: Iterable[WindowsFile]) -> None:
        for file in files:
            file.lose_name()
            self._open_files.discard(file)


def _full(path: str) -> str:
    """Return an absolute path, on Windows one of any length."""
    full = os.path.abspath(path)
    if os.name != "nt" or full.startswith("\\\\"):
        # On another system for tests; or a path of a network, or one that has a prefix.
        return full
    return _ANY_NAME + full


def _same(one: str, other: str) -> bool:
    return os.path.normcase(one) == os.path.normcase(other)


def _open(path: str, flags: int, mode: int) -> int:
    """Open a file, with the errors that POSIX has for directories in the place of files."""
    try:
        return os.open(path, flags, mode)
    except PermissionError as error:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from error
        raise
    except FileNotFoundError as missing:
        raise _no_directory(os.path.dirname(path), missing) from missing


def _no_directory(path: str, error: OSError) -> OSError:
    """Return the error of POSIX if a file is where a directory should be, otherwise this one."""
    if not os.path.isfile(path):
        return error
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def _patiently(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call, which is repeated while another program has the file open.

    Raises:
        PermissionError: it was refused to the last.
    """
    is_main = threading.current_thread() is threading.main_thread()
    for pause_s in _PAUSES_S if is_main else _PAUSES_S + _LATER_PAUSES_S:
        try:
            return call(*arguments)
        except PermissionError:
            time.sleep(pause_s)
    return call(*arguments)
