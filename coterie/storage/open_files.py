"""The open files of a file system: a bounded number, those used longest ago closed first.

A data directory may have thousands of partitions with several files each, and a process often has
only 1,024 descriptors [log/open-files]. So everything that uses a segment or an index asks here for
the file each time.

A pinned file stays open. Files are pinned while another thread syncs them, and while they have
writes that a later sync has to confirm [log/fail-stop]. A pinned file that is dropped is closed
with its last pin.

If the process cannot open another file, some of these are closed [log/handle-shortage].
"""

from collections.abc import Callable

from coterie.storage.errors import is_shortage
from coterie.storage.filesystem import File, FileSystem

# Half of the usual limit of 1,024 descriptors. The other half is for connections.
MAX_OPEN_FILES = 512
# How many files are closed when no other can be opened: one for the file that is needed, the others
# for what is open for a moment only, such as a directory that is synced.
_CLOSED_AT_ONCE = 4


class OpenFiles:
    """The open files of a file system, by path.

    Attributes:
        filesystem: the file system.
        limit: how many files may be open.
        dropped: the files that were dropped while they were pinned.
    """

    def __init__(self, filesystem: FileSystem, limit: int = MAX_OPEN_FILES) -> None:
        """No file is open yet.

        Args:
            filesystem: where the files are.
            limit: how many files may be open.
        """
        assert limit > 1, "a file in use is open, and half of them may be pinned"
        self.filesystem = filesystem
        self.dropped: set[File] = set()
        self.limit = limit
        # In the order of their last use, as far as more than half of the places were taken then:
        # with fewer nothing is closed, and keeping the order takes four times as long as a look-up.
        self._files: dict[str, File] = {}
        # The number of pins of each pinned file, including those that were dropped.
        self._pins: dict[File, int] = {}

    # Not a length: an empty table is not false.
    @property
    def count(self) -> int:
        """How many files are open."""
        return len(self._files) + len(self.dropped)

    def get(self, path: str) -> File:
        """Return the file, opened if it is not. Do not keep it: it may be closed by the next call.

        Raises:
            OSError: it cannot be opened.
        """
        file = self._files.get(path)
        if file is None:
            self._make_room()
            file = self._files[path] = self._opened(self.filesystem.open, path)
        elif len(self._files) > self.limit // 2:
            del self._files[path]
            self._files[path] = file
        return file

    def create(self, path: str) -> File:
        """Create a file and return it. Raises OSError."""
        self.drop(path)
        self._make_room()
        file = self._files[path] = self._opened(self.filesystem.create, path)
        return file

    @property
    def pins_left(self) -> int:
        """How many more files may wait for a sync, so that others can be open meanwhile."""
        return self.limit // 2 - len(self._pins)

    def pin(self, path: str) -> File:
        """Return the file, which stays open until it was unpinned as often as pinned.

        Raises:
            OSError: it cannot be opened.
        """
        file = self.get(path)
        assert file not in self.dropped, "a file that is to be closed is not used again"
        self._pins[file] = self._pins.get(file, 0) + 1
        return file

    def unpin(self, file: File) -> None:
        """Remove one pin from a file."""
        left = self._pins[file] - 1
        assert left >= 0, "a file is unpinned as often as it was pinned"
        if left:
            self._pins[file] = left
            return
        del self._pins[file]
        if file in self.dropped:
            self.dropped.discard(file)
            file.close()

    def drop(self, path: str) -> None:
        """Close a file, if it is open: it is removed or renamed next, or is not needed any more."""
        file = self._files.pop(path, None)
        if file is None:
            return
        assert file not in self.dropped, "a file is dropped once"
        if file in self._pins:
            self.dropped.add(file)
        else:
            file.close()

    def close(self) -> None:
        """Close all files, because the log that used them could not be opened."""
        for path in list(self._files):
            self.drop(path)
        for file in self.dropped:
            file.close()
        self.dropped.clear()
        self._pins.clear()
        assert not self.count, "no file is open any more"

    def give_back(self) -> bool:
        """Close some files, because other files cannot be opened; return whether there were any."""
        closed = [self._close_oldest() for _ in range(_CLOSED_AT_ONCE)]
        return any(closed)

    def _opened(self, call: Callable[[str], File], path: str) -> File:
        """Open a file, after closing others if the process cannot have another handle."""
        while True:
            try:
                return call(path)
            except OSError as error:
                if not is_shortage(error) or not self.give_back():
                    raise

    def _make_room(self) -> None:
        """Close the files that were used longest ago, until there is room for one more."""
        while self.count >= self.limit and self._close_oldest():
            pass

    def _close_oldest(self) -> bool:
        """Close the file that was used longest ago; return False if all are pinned.

        `pins_left` and the number of syncs in progress bound the pinned ones.
        """
        path = next((path for path, file in self._files.items() if file not in self._pins), None)
        if path is None:
            return False
        self._files.pop(path).close()
        return True
