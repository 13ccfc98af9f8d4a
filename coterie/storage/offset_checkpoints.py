"""One offset for each partition of a data directory, in one of Kafka's checkpoints.

    recovery-point-offset-checkpoint    below it a partition was synced
    log-start-offset-checkpoint         where a partition begins whose first records were deleted
    cleaner-offset-checkpoint           up to there a partition was compacted

The file is written as a whole when something has changed.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from coterie.storage.checkpoints import read_checkpoint, replace_file, text_of_lines
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"

# How many partitions one step handles: some hundred microseconds.
OFFSETS_A_STEP = 256

Key = tuple[str, int]
ContextManager = AbstractContextManager[object]


class OffsetCheckpoints:
    """The offsets by (topic, partition), and their file.

    Attributes:
        is_ours: whether the file was written by us when it was read [recovery/sealed-files].
    """

    def __init__(
        self, filesystem: FileSystem, path: str, *, durable: bool, lock: ContextManager
    ) -> None:
        """Nothing is read yet.

        Args:
            filesystem: where the file is.
            path: the checkpoint.
            durable: whether every change must survive a loss of power.
            lock: held during each change, because several threads make them.
        """
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        self._lock = lock
        self.is_ours = True
        self._offsets: dict[Key, int] = {}
        # The file differs from the offsets, because a write has failed or the file is damaged.
        self._is_outdated = False
        # Counts the changes, so that a step knows of those that were made since the one before it.
        self._changes = 0
        # The file was written and not synced.
        self._is_unsynced = False

    def load(self, *, needed: bool, mended: bool = False) -> None:
        """Read the file.

        Args:
            needed: whether its entries were durable, so that none of them may be missing. If not,
                0 is a right offset for every partition.
            mended: whether a damaged file is to be written anew with the next change.

        Raises:
            CorruptLog: the file is needed and is not a checkpoint.
        """
        assert not self._offsets, "a checkpoint is read once"
        try:
            self._offsets, self.is_ours = self._read()
        except CorruptLog:
            if needed:
                raise
            self._is_outdated = mended

    def _read(self) -> tuple[dict[Key, int], bool]:
        entries, is_ours = read_checkpoint(self._filesystem, self._path, 3)
        offsets = {(topic, int(number)): int(offset) for topic, number, offset in entries}
        for (topic, number), offset in offsets.items():
            if number < 0 or offset < 0:
                entry = f"{topic} {number} {offset}"
                raise CorruptLog(self._path, 0, f"{entry!r} is not an entry")
        return offsets, is_ours

    def get(self, key: Key) -> int:
        """Return the offset of a partition, 0 if there is none."""
        return self._offsets.get(key, 0)

    def update(self, offsets: dict[Key, int]) -> None:
        """Set some offsets, and write the file if one has changed. Raises OSError."""
        with self._lock:
            if self._set(offsets) or self._is_outdated:
                self._write(durable=self._durable)
            assert not self._is_outdated, "the file has every change"

    def set(self, offsets: dict[Key, int]) -> None:
        """Set some offsets; `write_in_steps` or the next change writes the file."""
        with self._lock:
            if self._set(offsets):
                self._is_outdated = True
                self._changes += 1

    def _set(self, offsets: dict[Key, int]) -> bool:
        assert all(offset >= 0 for offset in offsets.values()), "offsets are not negative"
        changed = {key: offset for key, offset in offsets.items() if self.get(key) != offset}
        self._offsets.update(changed)
        return bool(changed)

    def write_in_steps(self) -> Iterator[None]:
        """Write the file in short steps, if an offset has changed. Raises OSError.

        If the offsets change between two steps, that change writes the file.
        """
        with self._lock:
            if not self._is_outdated:
                return
            of_changes = self._changes
            offsets = sorted(self._offsets.items())
        lines = []
        for count, entry in enumerate(offsets, 1):
            lines.append(_line(entry))
            if not count % OFFSETS_A_STEP:
                yield
        with self._lock:
            if of_changes == self._changes:
                self._replace(lines, durable=self._durable)

    def forget(self, is_gone: Callable[[Key], bool]) -> None:
        """Remove partitions, and write the file if it had one of them. Raises OSError."""
        with self._lock:
            kept = {key: offset for key, offset in self._offsets.items() if not is_gone(key)}
            has_changed = len(kept) < len(self._offsets)
            self._offsets = kept
            if has_changed or self._is_outdated:
                self._write(durable=self._durable)
            assert not self._is_outdated, "the file has every change"

    def seal(self) -> None:
        """Write the file with our checksum, if it has none. Raises OSError."""
        with self._lock:
            if not self.is_ours:
                self._write(durable=True)

    def sync(self) -> None:
        """Make the file durable, if it is not. Raises OSError."""
        with self._lock:
            if self._is_unsynced:
                self._write(durable=True)
            assert not self._is_unsynced, "a durable write leaves nothing to sync"

    def _write(self, *, durable: bool) -> None:
        # If this fails, the next change writes the file again.
        self._is_outdated = True
        self._changes += 1
        self._replace([_line(entry) for entry in sorted(self._offsets.items())], durable=durable)

    def _replace(self, lines: list[str], *, durable: bool) -> None:
        assert len(lines) == len(self._offsets), "the file has a line for each partition"
        text = text_of_lines(self._path, lines)
        replace_file(self._filesystem, self._path, text, durable=durable)
        self._is_outdated, self._is_unsynced = False, not durable


def _line(entry: tuple[Key, int]) -> str:
    (topic, partition), offset = entry
    return f"{topic} {partition} {offset}"
