"""The offset at which each leader epoch began: `leader-epoch-checkpoint` [log/leader-epochs].

A consumer that remembers an epoch asks where the epoch ended, to find out whether records that it
has read were cut off. Epochs and start offsets both ascend.

The checksum of a batch does not cover its leader epoch, so the epoch of every batch that is checked
is compared with this file. The file is written before the first batch of an epoch, so it is
complete after the death of a process. Only after a loss of power may it lack epochs, and if it
is synced before batches are, then only as a whole; then, and if it cannot be read at all, it is
made anew from the batches (`learning`) [recovery/epoch-check].
"""

from bisect import bisect_right

from coterie.storage.checkpoints import checkpoint_text, read_checkpoint, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
# Above every int64.
_NO_END = 1 << 63


class LeaderEpochs:
    """The epochs of one log, and their file.

    Attributes:
        entries: epoch and start offset of each, ascending.
        latest: the newest epoch, -1 if there is none.
        learning: whether batches may begin epochs that the file lacks, while a log is opened.
    """

    def __init__(self, filesystem: FileSystem, directory: str, *, durable: bool) -> None:
        """Nothing is read yet.

        Args:
            filesystem: where the directory is.
            directory: the partition's directory.
            durable: whether every change must survive a loss of power.
        """
        self._filesystem = filesystem
        self._path = f"{directory}/{FILE_NAME}"
        self._durable = durable
        self.entries: list[tuple[int, int]] = []
        self.latest = UNDEFINED_EPOCH
        self.learning = False
        self._has_learned = False
        # The file was written and not synced.
        self._is_unsynced = False

    def read(self) -> bool:
        """Take the entries of the file; return False if it is missing or its entries are wrong."""
        try:
            found, _ = read_checkpoint(self._filesystem, self._path, 2)
        except CorruptLog:
            return False
        self.entries = [(int(epoch), int(start)) for epoch, start in found]
        if not _ascend(self.entries):
            self.entries = []
        self._update_latest()
        return bool(self.entries)

    def until(self, epoch: int, base_offset: int) -> int | None:
        """Return the offset up to which batches have `epoch`, if one at `base_offset` has it.

        None is returned if the batch cannot have that epoch.
        """
        entries = self.entries
        number = bisect_right(entries, base_offset, key=_start) - 1
        end = _NO_END
        if number + 1 < len(entries):
            _, end = entries[number + 1]
        if number < 0:
            # Before the first entry are batches that are deleted but still in the file, and batches
            # of Kafka from before it had epochs.
            if not self.learning:
                first, _ = entries[0] if entries else (UNDEFINED_EPOCH, 0)
                return end if UNDEFINED_EPOCH <= epoch <= first else None
        else:
            expected, _ = entries[number]
            if epoch == expected:
                return end
        if self.learning and epoch > self.latest and number + 1 == len(entries):
            self._add(epoch, base_offset)
            self._has_learned = True
            return _NO_END
        if self.learning and epoch == UNDEFINED_EPOCH and not entries:
            return base_offset + 1
        return None

    def settle(self, log_start_offset: int, log_end_offset: int) -> None:
        """End the learning: drop epochs outside of the log, and write what was learned."""
        assert log_start_offset <= log_end_offset, "a log begins before it ends"
        self.learning = False
        kept = [(epoch, start) for epoch, start in self.entries if start < log_end_offset]
        # An epoch without batches: the next batch may have an earlier one.
        is_outdated = self._has_learned or len(kept) < len(self.entries)
        self.entries = kept
        self._drop_before(log_start_offset)
        is_within = not self.entries or _start(self.entries[-1]) <= log_end_offset
        assert is_within, "no epoch begins behind the end of the log"
        self._update_latest()
        if is_outdated:
            self._has_learned = False
            self._write()

    def start(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on have `epoch`.

        Raises:
            OSError: the file could not be written, and nothing is noted.
        """
        assert not self.learning, "a log is opened before it gets records"
        before = self.entries, self.latest
        # The first epoch of a log is not synced, which would hold the event loop once for each new
        # log: a loss of power leaves the file, or none that can be read. Then it is made anew.
        durable = self._durable and bool(self.entries)
        self._add(epoch, start_offset)
        try:
            self._replace(durable=durable)
        except OSError:
            self.entries, self.latest = before
            raise

    def truncate_before(self, log_start_offset: int) -> None:
        """Drop epochs that ended before the log begins."""
        if len(self.entries) > 1 and _start(self.entries[1]) <= log_start_offset:
            self._drop_before(log_start_offset)
            self._write()

    def at(self, offset: int) -> int:
        """Return the epoch of the record at `offset`, -1 if it is unknown."""
        number = bisect_right(self.entries, offset, key=_start) - 1
        epoch, _ = self.entries[number] if number >= 0 else (UNDEFINED_EPOCH, 0)
        return epoch

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest epoch that is not above `epoch`, and the offset after it.

        For an epoch above the log's newest both are -1 [log/leader-epochs].
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        if not self.entries:
            # An epoch below -1. In Kafka the first epoch is noted before there are batches of it.
            return epoch, log_end_offset
        floor = epoch
        for known, start_offset in self.entries:
            if known > epoch:
                return floor, start_offset
            floor = known
        raise AssertionError("the latest epoch is the last entry")

    def sync(self) -> None:
        """Make the file durable, if it is not. Raises OSError."""
        if self._is_unsynced:
            self._replace(durable=True)

    def _add(self, epoch: int, start_offset: int) -> None:
        assert epoch > self.latest, "leader epochs only grow"
        # An epoch that began at the same offset has no batches.
        kept = [entry for entry in self.entries if _start(entry) < start_offset]
        assert len(kept) >= len(self.entries) - 1, "at most one epoch has no batches"
        self.entries = kept
        self.entries.append((epoch, start_offset))
        self.latest = epoch

    def _drop_before(self, log_start_offset: int) -> None:
        kept = [entry for entry in self.entries if _start(entry) > log_start_offset]
        if len(kept) < len(self.entries):
            # The epoch in which the log begins, from where the log begins.
            epoch, start = self.entries[len(self.entries) - len(kept) - 1]
            kept.insert(0, (epoch, max(start, log_start_offset)))
        assert bool(kept) == bool(self.entries), "the epoch in which the log begins stays"
        assert not kept or _start(kept[0]) >= log_start_offset, "no epoch begins before the log"
        self.entries = kept

    def _update_latest(self) -> None:
        self.latest, _ = self.entries[-1] if self.entries else (UNDEFINED_EPOCH, 0)

    def _write(self) -> None:
        self._replace(durable=self._durable)

    def _replace(self, *, durable: bool) -> None:
        assert _ascend(self.entries), "epochs and offsets ascend"
        newest, _ = self.entries[-1] if self.entries else (UNDEFINED_EPOCH, 0)
        assert self.latest == newest, "the latest epoch is the last entry"
        text = checkpoint_text(self._path, self.entries)
        replace_file(self._filesystem, self._path, text, durable=durable)
        self._is_unsynced = not durable


def _start(entry: tuple[int, int]) -> int:
    _, start_offset = entry
    return start_offset


def _ascend(entries: list[tuple[int, int]]) -> bool:
    """Return whether epochs and start offsets ascend from 0 on."""
    before_epoch = before_start = -1
    for epoch, start in entries:
        if epoch <= before_epoch or start <= before_start:
            return False
        before_epoch, before_start = epoch, start
    return True
