"""A disk in memory that records every operation, and can be rebuilt from some of them.

Files and directories have numbers, like inodes, and names refer to numbers. So the data of a file
and its name can be lost separately, as on a real disk. Contents are immutable bytes, so a copy of a
disk costs two dictionaries.
"""

import errno
from collections.abc import Callable
from typing import Any, NamedTuple

ROOT = 0
# The boot in which a process dies, and the boot after a loss of power.
FIRST_BOOT = "boot 1"
NEXT_BOOT = "boot 2"


class Operation(NamedTuple):
    """One change of the disk, or one sync.

    Attributes:
        kind: write, truncate, sync, sync_failed, names, sync_directory.
        inode: the file or directory.
        position: where a write begins, or the size after a truncation.
        data: the bytes of a write.
        names: the changes of `names`: directory, name, and its inode, None if the name is removed.
        path: for messages.
        directory: whether the new name is that of a new directory.
    """

    kind: str
    inode: int
    position: int = 0
    data: bytes = b""
    names: tuple[tuple[int, str, int | None], ...] = ()
    path: str = ""
    directory: bool = False

    def __str__(self) -> str:
        size = len(self.data) if self.kind == "write" else ""
        return f"{self.kind} {self.path} {self.position or ''}+{size}"


class Disk:
    """The contents of a disk: bytes by inode, and names by directory."""

    __slots__ = ("directories", "files")

    def __init__(self) -> None:
        self.files: dict[int, bytes] = {}
        self.directories: dict[int, dict[str, int]] = {ROOT: {}}

    def copy(self) -> "Disk":
        """Return another disk with the same contents."""
        other = Disk.__new__(Disk)
        other.files = self.files.copy()
        other.directories = self.directories.copy()
        return other

    def apply(self, operation: Operation) -> None:
        """Apply one operation. Syncs change nothing here."""
        kind, inode, position, data, names, _, new_directory = operation
        if kind == "write":
            before = self.files.get(inode, b"")
            if len(before) == position:
                self.files[inode] = before + data
            else:
                before = before.ljust(position, b"\0")
                end = position + len(data)
                self.files[inode] = before[:position] + data + before[end:]
        elif kind == "truncate":
            self.files[inode] = self.files.get(inode, b"")[:position].ljust(position, b"\0")
        elif kind == "names":
            for directory, name, target in names:
                entries = self.directories.get(directory, {}).copy()
                if target is None:
                    entries.pop(name, None)
                else:
                    entries[name] = target
                    if new_directory:
                        self.directories.setdefault(target, {})
                    elif target not in self.directories:
                        self.files.setdefault(target, b"")
                self.directories[directory] = entries

    def put(self, path: str, data: bytes | None) -> None:
        """Give a file other contents, or remove its name with None. Its directory exists."""
        parent, _, name = path.rpartition("/")
        directory = ROOT
        for part in parent.split("/")[1:]:
            directory = self.directories[directory][part]
        entries = self.directories[directory].copy()
        if data is None:
            entries.pop(name, None)
        else:
            inode = entries.setdefault(name, 1 + max((*self.files, *self.directories)))
            self.files[inode] = data
        self.directories[directory] = entries

    def identity(self) -> int:
        """Return a number that is equal for equal disks, in all processes forked from this one."""
        items: list[tuple[str, bytes | None]] = []
        self._gather("", ROOT, items)
        return hash(frozenset(items))

    def _gather(self, prefix: str, directory: int, items: list[tuple[str, bytes | None]]) -> None:
        for name, inode in self.directories[directory].items():
            path = f"{prefix}/{name}"
            if inode in self.directories:
                items.append((path, None))
                self._gather(path, inode, items)
            else:
                items.append((path, self.files.get(inode, b"")))

    def paths(self) -> dict[str, int]:
        """Return the inode of every file that has a name, by path."""
        found: dict[str, int] = {}
        places = [("", ROOT)]
        while places:
            prefix, directory = places.pop()
            for name, inode in self.directories[directory].items():
                if inode in self.directories:
                    places.append((f"{prefix}/{name}", inode))
                else:
                    found[f"{prefix}/{name}"] = inode
        return found


class RecordingFileSystem:
    """A file system on such a disk. `operations` has every change.

    Attributes:
        ignores_syncs: whether a planted bug leaves syncs out; of all these file systems.
    """

    ignores_syncs = False

    def __init__(self, disk: Disk | None = None, boot: str = FIRST_BOOT) -> None:
        self.disk = Disk() if disk is None else disk
        self.operations: list[Operation] = []
        self.boot = boot
        self._locked: set[str] = set()
        self._next = 1 + max((*self.disk.files, *self.disk.directories))

    def boot_id(self) -> str:
        return self.boot

    def do(self, operation: Operation) -> None:
        if self.ignores_syncs and operation.kind in ("sync", "sync_directory"):
            return
        self.operations.append(operation)
        self.disk.apply(operation)

    def _new_inode(self) -> int:
        self._next += 1
        return self._next

    def _find(self, path: str) -> int:
        here = ROOT
        for part in path.split("/"):
            if part in ("", "."):
                continue
            entries = self.disk.directories.get(here)
            if entries is None:
                raise _error(errno.ENOTDIR, path)
            below = entries.get(part)
            if below is None:
                raise _error(errno.ENOENT, path)
            here = below
        return here

    def _place(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        directory = self._find(parent)
        if directory not in self.disk.directories:
            raise _error(errno.ENOTDIR, path)
        return directory, name

    def _names(self, path: str, *changes: tuple[int, str, int | None]) -> None:
        self.do(Operation("names", changes[0][0], names=changes, path=path))

    def open(self, path: str) -> "RecordingFile":
        inode = self._find(path)
        if inode in self.disk.directories:
            raise _error(errno.EISDIR, path)
        return RecordingFile(self, inode, path)

    def create(self, path: str, *, private: bool = False) -> "RecordingFile":
        directory, name = self._place(path)
        inode = self.disk.directories[directory].get(name)
        if inode is None:
            inode = self._new_inode()
            self._names(path, (directory, name, inode))
        elif inode in self.disk.directories:
            raise _error(errno.EISDIR, path)
        else:
            self.do(Operation("truncate", inode, 0, path=path))
        return RecordingFile(self, inode, path)

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def size(self, path: str) -> int:
        return self.open(path).size()

    def list(self, directory: str) -> list[str]:
        entries = self.disk.directories.get(self._find(directory))
        if entries is None:
            raise _error(errno.ENOTDIR, directory)
        # Real directories have no order, but failures must be repeatable.
        return sorted(entries)

    def make_directory(self, path: str) -> None:
        here, so_far = ROOT, ""
        for part in path.split("/"):
            if not part:
                continue
            so_far += "/" + part
            below = self.disk.directories[here].get(part)
            if below is None:
                below = self._new_inode()
                change = (here, part, below)
                self.do(Operation("names", here, names=(change,), path=so_far, directory=True))
            elif below not in self.disk.directories:
                raise _error(errno.EEXIST, path)
            here = below

    def rename(self, source: str, target: str) -> None:
        moved = self._find(source)
        old, old_name = self._place(source)
        new, new_name = self._place(target)
        replaced = self.disk.directories[new].get(new_name)
        if replaced is not None and self.disk.directories.get(replaced):
            raise _error(errno.ENOTEMPTY, target)
        changes = (new, new_name, moved), (old, old_name, None)
        self._names(f"{source} -> {target}", *changes)

    def remove(self, path: str) -> None:
        self.open(path)
        directory, name = self._place(path)
        self._names(f"{path} goes", (directory, name, None))

    def remove_directory(self, path: str) -> None:
        if self.disk.directories[self._find(path)]:
            raise _error(errno.ENOTEMPTY, path)
        directory, name = self._place(path)
        self._names(f"{path} goes", (directory, name, None))

    def sync_directory(self, path: str) -> None:
        self.do(Operation("sync_directory", self._find(path), path=path))

    def lock(self, path: str) -> "RecordingLock | None":
        if path in self._locked:
            return None
        if not self.exists(path):
            self.create(path)
        self._locked.add(path)
        return RecordingLock(self, path, self._find(path))

    def is_named(self, inode: int) -> bool:
        """Return whether a file has a name."""
        return any(inode in entries.values() for entries in self.disk.directories.values())


class RecordingFile:
    """An open file of a recording file system."""

    __slots__ = ("filesystem", "inode", "path")

    def __init__(self, filesystem: RecordingFileSystem, inode: int, path: str) -> None:
        self.filesystem = filesystem
        self.inode = inode
        self.path = path

    def read(self, position: int, length: int) -> bytes:
        return self.filesystem.disk.files[self.inode][position : position + length]

    def write(self, position: int, data: bytes) -> None:
        self.filesystem.do(Operation("write", self.inode, position, bytes(data), path=self.path))

    def truncate(self, size: int) -> None:
        self.filesystem.do(Operation("truncate", self.inode, size, path=self.path))

    def size(self) -> int:
        return len(self.filesystem.disk.files[self.inode])

    def sync(self) -> None:
        if not self.filesystem.is_named(self.inode):
            # As in OsFile: a file without a name is lost.
            raise _error(errno.ENOENT, self.path)
        self.filesystem.do(Operation("sync", self.inode, path=self.path))

    def sync_failed(self) -> None:
        """Note that a sync failed, so that unsynced writes never become durable."""
        self.filesystem.do(Operation("sync_failed", self.inode, path=self.path))

    def close(self) -> None:
        """Do nothing: the bytes belong to the disk."""


class RecordingLock:
    """A lock that is held."""

    def __init__(self, filesystem: RecordingFileSystem, path: str, inode: int) -> None:
        self._filesystem = filesystem
        self._path = path
        self._inode = inode

    def held(self) -> bool:
        """Return whether the lock file is still the one that was locked."""
        return self._filesystem.is_named(self._inode)

    def release(self) -> None:
        self._filesystem._locked.discard(self._path)


def _error(number: int, path: str) -> Any:
    return OSError(number, errno.errorcode[number], path)


def syncs_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The fault of a function that leaves out every sync of a file or a directory."""

    def run(*arguments: Any, **names: Any) -> Any:
        before = RecordingFileSystem.ignores_syncs
        RecordingFileSystem.ignores_syncs = True
        try:
            return function(*arguments, **names)
        finally:
            RecordingFileSystem.ignores_syncs = before

    return run
