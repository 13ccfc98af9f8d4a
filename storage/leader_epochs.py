"""Which leader epoch began at which offset: `leader-epoch-checkpoint` (KIP-101, KIP-279).

Consumers that remember an epoch ask where it ended, to find out whether the log they were reading
has been cut under them. Epochs and start offsets both ascend.
"""

from storage.checkpoints import checkpoint_text, read_checkpoint, replace_file
from storage.filesystem import FileSystem

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The epochs of one log, as (epoch, start offset), and their file."""

    def __init__(self, filesystem: FileSystem, directory: str, *, durable: bool) -> None:
        self._filesystem = filesystem
        self._path = f"{directory}/{FILE_NAME}"
        self._durable = durable
        self.entries: list[tuple[int, int]] = []
        # The newest epoch, -1 before the first.
        self.latest = UNDEFINED_EPOCH

    def load(self, log_start_offset: int, log_end_offset: int) -> None:
        """Read the file, without the epochs of what the log no longer has or never had.

        Raises:
            CorruptLog: the file is no checkpoint.
        """
        found = read_checkpoint(self._filesystem, self._path, 2)
        self.entries = [(int(epoch), int(start)) for epoch, start in found]
        self.entries = [entry for entry in self.entries if entry[1] < log_end_offset]
        self._forget_before(log_start_offset)
        self.latest = self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

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

    def _write(self) -> None:
        text = checkpoint_text(self.entries)
        replace_file(self._filesystem, self._path, text, durable=self._durable)
