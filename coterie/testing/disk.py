"""The files of a test's broker: a file system over another one, which can be full or lose power.

A loss of power takes back what was written to files since their last sync. Names are not lost, as
in a journaling file system, and a file that was renamed counts as synced, as ext4 does it. What was
written before `flush`, or before the latest start, is durable.

Threads of the broker open, sync and close files. Invariant: each of the dictionaries is changed by
single operations, so no lock is needed.
"""

import errno
import re
from typing import Protocol

from coterie.storage.filesystem import File, FileSystem, Lock
from coterie.testing.actions import DiskFull
from coterie.testing.faults import Fault

# The directory of a partition, which is renamed when it is deleted.
_PARTITION = re.compile(r"(.+)-\d+(\.[0-9a-f]+-delete)?")


class Faults(Protocol):
    """Where the faults of the disk come from."""

    def disk_fault(self, kind: type, path: str) -> Fault | None:
        """Return the fault that an operation on a path meets, which is counted; or None."""


class _Undo:
    """What a loss of power takes back in one file.

    Attributes:
        size: of the file when it was last durable.
        overwritten: bytes of that time that are not there any more, with their positions.
    """

    __slots__ = ("overwritten", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.overwritten: list[tuple[int, bytes]] = []


class DiskFile:
    """An open file of a `Disk`."""

    __slots__ = ("_disk", "_file", "_path", "read", "size")

    def __init__(self, disk: "Disk", file: File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path
        # Reading is not changed, and costs no call more.
        self.read = file.read
        self.size = file.size
        disk.open_files[id(self)] = path

    def write(self, position: int, data: bytes) -> None:
        """See `File`."""
        disk = self._disk
        disk.check_room(self._path)
        undo = disk.unsynced.get(self._path)
        if undo is None:
            undo = disk.changes(self._path, self._file)
        if position < undo.size:
            _keep(undo, self._file, position, len(data))
        self._file.write(position, data)

    def truncate(self, size: int) -> None:
        """See `File`."""
        undo = self._disk.changes(self._path, self._file)
        if size < undo.size:
            _keep(undo, self._file, size, undo.size - size)
        self._file.truncate(size)

    def sync(self) -> None:
        """See `File`."""
        # Before the sync: what is written meanwhile is not covered by it.
        undo = self._disk.unsynced.pop(self._path, None)
        try:
            self._file.sync()
        except OSError:
            if undo is not None:
                self._disk.unsynced.setdefault(self._path, undo)
            raise

    def close(self) -> None:
        """See `File`."""
        self._disk.open_files.pop(id(self), None)
        self._file.close()


def _keep(undo: _Undo, file: File, position: int, length: int) -> None:
    """Keep bytes that were durable and are about to change."""
    before = file.read(position, min(length, undo.size - position))
    undo.overwritten.append((position, before))


class Disk:
    """A file system that is another one, unless something goes wrong.

    Attributes:
        unsynced: what a loss of power takes back, by path.
        open_files: the paths of the files that are open.
    """

    def __init__(self, filesystem: FileSystem, faults: Faults) -> None:
        """Lay over a file system.

        Args:
            filesystem: where the files are.
            faults: what goes wrong.
        """
        self.unsynced: dict[str, _Undo] = {}
        self.open_files: dict[int, str] = {}
        self._filesystem = filesystem
        self._faults = faults
        self._losses = 0

    # --- what a test does -------------------------------------------------------------------------

    def flush(self) -> None:
        """Let everything that was written survive a loss of power."""
        self.unsynced.clear()

    def lose_power(self) -> None:
        """Take back what was written and not synced; no file may be open."""
        for path, undo in self.unsynced.items():
            file = self._filesystem.open(path)
            file.truncate(undo.size)
            for position, data in reversed(undo.overwritten):
                file.write(position, data)
            file.close()
        self.unsynced.clear()
        self._losses += 1

    # --- what files do ----------------------------------------------------------------------------

    def changes(self, path: str, file: File) -> _Undo:
        """Return what a loss of power takes back in a file, which is about to change."""
        undo = self.unsynced.get(path)
        if undo is None:
            undo = self.unsynced[path] = _Undo(file.size())
        return undo

    def check_room(self, path: str) -> None:
        """Raise if the disk is full.

        Raises:
            OSError: ENOSPC.
        """
        if self._faults.disk_fault(DiskFull, path) is not None:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    # --- the file system --------------------------------------------------------------------------

    def open(self, path: str) -> File:
        """See `FileSystem`."""
        return DiskFile(self, self._filesystem.open(path), path)

    def create(self, path: str, *, private: bool = False) -> File:
        """See `FileSystem`."""
        self.check_room(path)
        if self._filesystem.exists(path):
            file = self.open(path)
            file.truncate(0)
            return file
        self.unsynced[path] = _Undo(0)
        return DiskFile(self, self._filesystem.create(path, private=private), path)

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        self.check_room(path)
        self._filesystem.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        self._filesystem.rename(source, target)
        for path in list(self.unsynced):
            if path in (source, target) or path.startswith(f"{source}/"):
                self.unsynced.pop(path, None)

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        self._filesystem.remove(path)
        self.unsynced.pop(path, None)

    def boot_id(self) -> str:
        """See `FileSystem`."""
        real = self._filesystem.boot_id()
        return f"{real}+{self._losses}" if self._losses else real

    def lock(self, path: str) -> Lock | None:
        """See `FileSystem`."""
        return self._filesystem.lock(path)

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return self._filesystem.exists(path)

    def size(self, path: str) -> int:
        """See `FileSystem`."""
        return self._filesystem.size(path)

    def list(self, directory: str) -> list[str]:
        """See `FileSystem`."""
        return self._filesystem.list(directory)

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        self._filesystem.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        self._filesystem.sync_directory(path)


def topic_of(path: str) -> str:
    """Return the topic that a path is about; "" for a file of the whole broker."""
    found = _PARTITION.fullmatch(path.split("/")[-2]) if "/" in path else None
    return "" if found is None else found[1]
