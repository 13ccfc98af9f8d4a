"""The files held open: a bounded number of them, those used longest ago closed first.

A data directory may have thousands of partitions with several files each, and a process often only
1,024 descriptors. Everything that touches a segment or an index asks here for the file at each use.
A file may be pinned: while another thread syncs it, and while it has writes that a later sync must
answer for (the kernel tells a lost write to the descriptor that made it). A pinned file is neither
closed nor counted out; if it is dropped meanwhile, it is closed when the last pin goes.
"""

from coterie.storage.filesystem import File, FileSystem

# Half of the usual limit of 1,024 descriptors; the other half is for connections.
MAX_OPEN_FILES = 512


class OpenFiles:
    """The open files of a file system, by path."""

    def __init__(self, filesystem: FileSystem, limit: int = MAX_OPEN_FILES) -> None:
        assert limit > 0, "a file in use is open"
        self.filesystem = filesystem
        self._limit = limit
        # In the order of last use. A pinned file that was dropped is only in _pins and `dropped`.
        self._files: dict[str, File] = {}
        self._pins: dict[File, int] = {}
        self.dropped: set[File] = set()

    def __len__(self) -> int:
        return len(self._files) + len(self.dropped)

    def get(self, path: str) -> File:
        """The file, opened if it is not. Do not keep it: ask again at the next use."""
        file = self._files.pop(path, None)
        if file is None:
            self._make_room()
            file = self.filesystem.open(path)
        self._files[path] = file
        return file

    def create(self, path: str) -> File:
        """A new, empty file."""
        self.drop(path)
        self._make_room()
        file = self._files[path] = self.filesystem.create(path)
        return file

    def pin(self, path: str) -> File:
        """The file, to stay open until as many `unpin`s."""
        file = self.get(path)
        self._pins[file] = self._pins.get(file, 0) + 1
        return file

    def unpin(self, file: File) -> None:
        """Take one pin back."""
        left = self._pins[file] - 1
        if left:
            self._pins[file] = left
            return
        del self._pins[file]
        if file in self.dropped:
            self.dropped.discard(file)
            file.close()

    def drop(self, path: str) -> None:
        """Close the file if it is open: it is about to be removed or renamed, or not needed."""
        file = self._files.pop(path, None)
        if file is None:
            return
        if file in self._pins:
            self.dropped.add(file)
        else:
            file.close()

    def _make_room(self) -> None:
        if len(self._files) < self._limit:
            return
        for path, file in self._files.items():
            if file not in self._pins:
                del self._files[path]
                file.close()
                return
        # All are pinned: the number of pins is the caller's to bound, one or two a partition.
