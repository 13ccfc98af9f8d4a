"""A file system in memory, for `--data-dir :memory:`.

The files exist as long as the object. A broker that is restarted with the same object finds what
was written before.
"""

import errno

from coterie.storage.filesystem import REMOVED, File, Lock


class MemoryFile:
    """The bytes of a file, and also its handles, since a handle has no state of its own."""

    __slots__ = ("_bytes", "removed")

    def __init__(self) -> None:
        self._bytes = bytearray()
        # The file has no name any more. Handles can still use it, as on disk.
        self.removed = False

    def read(self, position: int, length: int) -> bytes:
        """See `File`."""
        assert position >= 0, "a file has no bytes before its first"
        assert length >= 0, "a read has a length"
        return bytes(memoryview(self._bytes)[position : position + length])

    def write(self, position: int, data: bytes) -> None:
        """See `File`."""
        assert position >= 0, "a file has no bytes before its first"
        missing = position - len(self._bytes)
        if missing > 0:
            self._bytes.extend(bytes(missing))
        self._bytes[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        """See `File`."""
        del self._bytes[size:]
        self._bytes.extend(bytes(size - len(self._bytes)))
        assert len(self._bytes) == size, "the file has the size that was asked for"

    def size(self) -> int:
        """See `File`."""
        return len(self._bytes)

    def sync(self) -> None:
        """Check that the file has a name. There is nothing to sync."""
        if self.removed:
            raise FileNotFoundError(errno.ENOENT, REMOVED)

    def close(self) -> None:
        """Do nothing: the bytes belong to the file system."""


class _Directory:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, _Directory | MemoryFile] = {}


class _MemoryLock:
    def __init__(self, held: set[str], path: str, file: MemoryFile) -> None:
        self._held = held
        self._path = path
        self._file = file

    def held(self) -> bool:
        return not self._file.removed

    def release(self) -> None:
        assert self._path in self._held, "a lock is released once"
        self._held.remove(self._path)


class MemoryFileSystem:
    """A tree of directories, which are dictionaries, and files, which are byte arrays."""

    def __init__(self) -> None:
        # What `boot_id` returns. A test of a loss of power changes it.
        self.boot = "memory"
        self._root = _Directory()
        self._locked: set[str] = set()

    def open(self, path: str) -> File:
        """See `FileSystem`."""
        directory, name = self._place(path)
        found = directory.entries.get(name)
        if found is None:
            raise _error(errno.ENOENT, path)
        if isinstance(found, _Directory):
            raise _error(errno.EISDIR, path)
        return found

    def create(self, path: str, *, private: bool = False) -> File:  # noqa: ARG002 - no one else reads memory
        """See `FileSystem`."""
        directory, name = self._place(path)
        found = directory.entries.setdefault(name, MemoryFile())
        if isinstance(found, _Directory):
            raise _error(errno.EISDIR, path)
        assert not found.removed, "a file that was removed has no name"
        found.truncate(0)
        return found

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def size(self, path: str) -> int:
        """See `FileSystem`."""
        return self.open(path).size()

    def list(self, directory: str) -> list[str]:
        """See `FileSystem`."""
        return list(self._directory(directory).entries)

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        here = self._root
        for part in _parts(path):
            below = here.entries.setdefault(part, _Directory())
            if not isinstance(below, _Directory):
                raise _error(errno.EEXIST, path)
            here = below

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        old, old_name = self._place(source)
        new, new_name = self._place(target)
        moved = old.entries.get(old_name)
        if moved is None:
            raise _error(errno.ENOENT, source)
        if isinstance(moved, MemoryFile):
            assert not moved.removed, "a file that was removed has no name"
        replaced = new.entries.get(new_name)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise _error(errno.ENOTEMPTY, target)
        if isinstance(replaced, MemoryFile) and replaced is not moved:
            replaced.removed = True
        del old.entries[old_name]
        new.entries[new_name] = moved

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        directory, name = self._place(path)
        file = directory.entries.get(name)
        if file is None:
            raise _error(errno.ENOENT, path)
        if isinstance(file, _Directory):
            raise _error(errno.EISDIR, path)
        assert not file.removed, "a file that was removed has no name"
        file.removed = True
        del directory.entries[name]

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        if self._directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        directory, name = self._place(path)
        del directory.entries[name]

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        self._directory(path)

    def lock(self, path: str) -> Lock | None:
        """See `FileSystem`."""
        if path in self._locked:
            return None
        directory, name = self._place(path)
        file = directory.entries.setdefault(name, MemoryFile())
        if isinstance(file, _Directory):
            raise _error(errno.EISDIR, path)
        self._locked.add(path)
        return _MemoryLock(self._locked, path, file)

    def boot_id(self) -> str:
        """See `FileSystem`."""
        return self.boot

    def _find(self, path: str) -> "_Directory | MemoryFile":
        here: _Directory | MemoryFile = self._root
        for part in _parts(path):
            if not isinstance(here, _Directory):
                raise _error(errno.ENOTDIR, path)
            below = here.entries.get(part)
            if below is None:
                raise _error(errno.ENOENT, path)
            here = below
        return here

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if not isinstance(found, _Directory):
            raise _error(errno.ENOTDIR, path)
        return found

    def _place(self, path: str) -> tuple[_Directory, str]:
        """Return the directory of a path, and the name in it."""
        parts = _parts(path)
        return self._directory("/".join(parts[:-1])), parts[-1]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _error(number: int, path: str) -> OSError:
    # OSError chooses the subclass (FileNotFoundError and so on) by the number.
    return OSError(number, errno.errorcode[number], path)
