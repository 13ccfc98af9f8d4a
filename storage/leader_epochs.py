"""Which leader epoch began at which offset: `leader-epoch-checkpoint` (KIP-101, KIP-279).

Consumers that remember an epoch ask where it ended, to find out whether the log they were reading
has been cut under them. Epochs and start offsets both ascend.

The file and the batches say the same thing twice, and the checksum of a batch leaves its epoch out:
so every batch that is looked at is held against the file. It is written before the first batch of
an epoch is, so after the death of a process it lacks nothing. Only a loss of power may leave it
behind the log; then, and when it can't be read at all, it is made anew from the batches (`learn`).
"""

from bisect import bisect_right

from coterie.storage.checkpoints import checkpoint_text, read_checkpoint, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
_NO_END = 1 << 63


class LeaderEpochs:
    """The epochs of one log, as (epoch, start offset), and their file."""

    def __init__(self, filesystem: FileSystem, directory: str, *, durable: bool) -> None:
        self._filesystem = filesystem
        self._path = f"{directory}/{FILE_NAME}"
        self._durable = durable
        self.entries: list[tuple[int, int]] = []
        # The newest epoch, -1 before the first.
        self.latest = UNDEFINED_EPOCH
        # Whether batches may begin epochs that the file does not tell of; while a log is opened.
        self.learning = False
        self._learnt = False
        # Whether the file was written and not synced.
        self._unsynced = False

    def read(self) -> bool:
        """Take the entries of the file; False when it is missing or can't have been written so."""
        try:
            found = read_checkpoint(self._filesystem, self._path, 2)
        except CorruptLog:
            return False
        self.entries = [(int(epoch), int(start)) for epoch, start in found]
        later = zip(self.entries, self.entries[1:], strict=False)
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in later) or any(
            number < 0 for entry in self.entries for number in entry
        ):
            self.entries = []
        self.latest = self.entries[-1][0] if self.entries else UNDEFINED_EPOCH
        return bool(self.entries)

    def until(self, epoch: int, base_offset: int) -> int | None:
        """The offset up to which batches have `epoch` if one at `base_offset` has it.

        None when the batch can't be of that epoch. While `learning`, a batch may begin a new one.
        """
        entries = self.entries
        number = bisect_right(entries, base_offset, key=_start) - 1
        end = entries[number + 1][1] if number + 1 < len(entries) else _NO_END
        if number < 0:
            # In front of the first entry is what is deleted but still there, and what Kafka wrote
            # before it had epochs.
            if not self.learning:
                first = entries[0][0] if entries else UNDEFINED_EPOCH
                return end if UNDEFINED_EPOCH <= epoch <= first else None
        elif epoch == entries[number][0]:
            return end
        if self.learning and epoch > self.latest and number + 1 == len(entries):
            self.entries.append((epoch, base_offset))
            self.latest = epoch
            self._learnt = True
            return _NO_END
        if self.learning and epoch == UNDEFINED_EPOCH and not entries:
            return base_offset + 1
        return None

    def settle(self, log_start_offset: int, log_end_offset: int) -> None:
        """Forget the epochs of what the log no longer has or never had; write what was learnt."""
        self.learning = False
        kept = [entry for entry in self.entries if entry[1] < log_end_offset]
        # An epoch that no batch was written in: the next one there may be of an earlier epoch.
        outdated = self._learnt or len(kept) < len(self.entries)
        self.entries = kept
        self._forget_before(log_start_offset)
        self.latest = self.entries[-1][0] if self.entries else UNDEFINED_EPOCH
        if outdated:
            self._learnt = False
            self._write()

    def start(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on are of `epoch`."""
        assert epoch > self.latest, "leader epochs only grow"
        self.entries = [entry for entry in self.entries if entry[1] < start_offset]
        self.entries.append((epoch, start_offset))
        self.latest = epoch
        self._write()

    def truncate_before(self, log_start_offset: int) -> None:
        """Forget epochs that ended before the log begins."""
        if len(self.entries) > 1 and self.entries[1][1] <= log_start_offset:
            self._forget_before(log_start_offset)
            self._write()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Where `epoch` ended: (the greatest epoch not above it, the offset after it).

        (-1, -1) for an epoch newer than the log's newest, as Kafka's LeaderEpochFileCache answers.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        floor = epoch
        for known, start_offset in self.entries:
            if known > epoch:
                return floor, start_offset
            floor = known
        raise AssertionError("the latest epoch is the last entry")

    def _forget_before(self, log_start_offset: int) -> None:
        kept = [entry for entry in self.entries if entry[1] > log_start_offset]
        if len(kept) < len(self.entries):
            # The epoch that the log begins in, from where it begins.
            epoch, start = self.entries[len(self.entries) - len(kept) - 1]
            kept.insert(0, (epoch, max(start, log_start_offset)))
        self.entries = kept

    def sync(self) -> None:
        """Let the file survive a loss of power from now on, if it does not yet. Raises OSError."""
        if self._unsynced:
            self._replace(durable=True)

    def _write(self) -> None:
        self._replace(durable=self._durable)

    def _replace(self, *, durable: bool) -> None:
        replace_file(self._filesystem, self._path, checkpoint_text(self.entries), durable=durable)
        self._unsynced = not durable


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
