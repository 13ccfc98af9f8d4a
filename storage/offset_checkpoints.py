"""One offset for each partition of a data directory, in one of Kafka's checkpoint files.

    recovery-point-offset-checkpoint    below which a partition was synced
    log-start-offset-checkpoint         where a partition begins whose first records were deleted
    cleaner-offset-checkpoint           up to which a partition was compacted

The file is written as a whole when something has changed.
"""

from collections.abc import Callable

from coterie.storage.checkpoints import checkpoint_text, read_checkpoint, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"

Key = tuple[str, int]


class OffsetCheckpoints:
    """The offsets by (topic, partition), and their file."""

    def __init__(self, filesystem: FileSystem, path: str, *, durable: bool) -> None:
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        self._offsets: dict[Key, int] = {}
        # Whether a write has failed, so that the file may lag behind.
        self._outdated = False
        # Whether it was written and not synced.
        self._unsynced = False

    def load(self, *, needed: bool, mended: bool = False) -> None:
        """Read the file. With `needed` none of its entries may be lost, else 0 is right too.

        With `mended` a file that can't be read is written anew at the next chance.

        Raises:
            CorruptLog: it is needed and no checkpoint.
        """
        try:
            entries = read_checkpoint(self._filesystem, self._path, 3)
        except CorruptLog:
            if needed:
                raise
            entries = []
            self._outdated = mended
        self._offsets = {(topic, int(number)): int(offset) for topic, number, offset in entries}

    def get(self, key: Key) -> int:
        """The offset of a partition, 0 if there is none."""
        return self._offsets.get(key, 0)

    def update(self, offsets: dict[Key, int]) -> None:
        """Set some offsets, and write the file if that changes any. Raises OSError."""
        changed = {key: offset for key, offset in offsets.items() if self.get(key) != offset}
        self._offsets.update(changed)
        if changed or self._outdated:
            self._write(durable=self._durable)

    def forget(self, gone: Callable[[Key], bool]) -> None:
        """Remove partitions, and write the file if it had any of them. Raises OSError."""
        kept = {key: offset for key, offset in self._offsets.items() if not gone(key)}
        changed = len(kept) < len(self._offsets)
        self._offsets = kept
        if changed or self._outdated:
            self._write(durable=self._durable)

    def sync(self) -> None:
        """Let the file survive a loss of power from now on, if it does not yet. Raises OSError."""
        if self._unsynced:
            self._write(durable=True)

    def _write(self, *, durable: bool) -> None:
        """Write the file. After a failure the next change writes it again."""
        self._outdated = True
        entries = [(*key, offset) for key, offset in sorted(self._offsets.items())]
        replace_file(self._filesystem, self._path, checkpoint_text(entries), durable=durable)
        self._outdated, self._unsynced = False, not durable
