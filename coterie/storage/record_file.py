"""A log in one file: records that replace each other, few enough to be kept in memory.

The file holds batches of magic 2 with offsets from 0 on, like a segment, without an index. It is
made at the first append, and only its owner may read it. One append may wait for a sync at a time:
so a loss of power leaves at most one incomplete write, and a bad batch with a good one behind it is
damage [security/log-damage]. A rewrite makes a second file, which takes the name of the first.

`sync` and `write_copy` may run in another thread than the rest, one at a time.
"""

from collections.abc import Iterator, Sequence

from coterie.protocol.record_batch import Record
from coterie.protocol.records import decode_records, encode_records, read_header
from coterie.protocol.topic_names import SECURITY_TOPIC
from coterie.storage.batches import BadBatch, scan
from coterie.storage.errors import CorruptLog, LogFailed
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.torn_tail import TailTrust, complete_batch, refusal

# The security log is named like a partition, and is a file: Kafka renames directories of partitions
# that its metadata does not know, and lets files be.
SECURITY_LOG = SECURITY_TOPIC, 0
# What the name of a copy ends with until it takes the place of the file.
COPY_SUFFIX = ".tmp"
# How many records of a copy share a batch. A batch of a thousand is some 100 KiB.
_RECORDS_A_BATCH = 1_000


class RecordFile:
    """The log in one file.

    Attributes:
        path: the file.
        file: the open file, None if there is none.
        size_bytes: its size.
        next_offset: the offset of the next record.
        cut_bytes: what was cut off its end when it was opened.
        failure: the first error of a write or sync; nothing is written after it.
    """

    def __init__(self, filesystem: FileSystem, path: str, *, durable: bool) -> None:
        """Take a path; `read` reads what is there.

        Args:
            filesystem: where the file is.
            path: the file, which may not exist.
            durable: whether what was synced must survive a loss of power.
        """
        self.path = path
        self.size_bytes = 0
        self.cut_bytes = 0
        self.failure: OSError | None = None
        self._filesystem = filesystem
        self._durable = durable
        self.file: File | None = None
        self.next_offset = 0
        # The file is new, and a loss of power could lose its name.
        self._has_unsynced_name = False

    # --- the start --------------------------------------------------------------------------------

    def read(self, trust: TailTrust) -> list[bytes]:
        """Return the values of all records, and cut what an interrupted write has left.

        Args:
            trust: what may be incomplete.

        Raises:
            CorruptLog: something is wrong that no interrupted write explains.
            OSError: the file cannot be read.
        """
        assert self.file is None, "a file is read once"
        if self._filesystem.exists(self.path + COPY_SUFFIX):
            self._filesystem.remove(self.path + COPY_SUFFIX)
        if not self._filesystem.exists(self.path):
            return []
        file = self.file = self._filesystem.open(self.path)
        size = file.size()
        values: list[bytes] = []
        try:
            for position, length, _, last_offset, _ in scan(file, 0, size, 0, gaps=False):
                data = file.read(position, length)
                values += [each.value or b"" for each in decode_records(data, read_header(data))]
                self.size_bytes, self.next_offset = position + length, last_offset + 1
        except BadBatch as bad:
            self._cut(file, bad, size, trust)
        # The last process may have died between a creation or a rename and the sync of the name.
        self._has_unsynced_name = trust is not TailTrust.CLEAN
        if self._durable and trust is not TailTrust.CLEAN and self.size_bytes:
            # Records that were never acknowledged count from now on, so they must not be lost.
            self.sync()
        assert self.size_bytes == size - self.cut_bytes, f"a part of {self.path} is not read"
        assert self.next_offset >= len(values), "offsets begin with 0"
        return values

    def _cut(self, file: File, bad: BadBatch, size: int, trust: TailTrust) -> None:
        assert self.size_bytes < size, f"nothing of {self.path} is bad"
        tail = file.read(self.size_bytes, size - self.size_bytes)
        why: str | None = None
        if trust is TailTrust.CLEAN:
            why = trust.value
        elif trust is TailTrust.PROCESS_DIED:
            why = refusal(file, self.size_bytes, size, self.next_offset, gaps=False)
        elif trust is TailTrust.POWER_LOST:
            why = complete_batch(tail, self.next_offset, gaps=True)
        if why is not None:
            raise CorruptLog(self.path, bad.position, f"{bad.reason} ({why})")
        self.cut_bytes = size - self.size_bytes
        file.truncate(self.size_bytes)
        # If a loss of power undid the cut, old bytes could follow new ones and look valid.
        file.sync()

    # --- appending --------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], now_ms: int) -> None:
        """Write records at the end, as one batch: all of them count or none.

        Raises:
            LogFailed: this write or an earlier write or sync failed. If the file could not be made,
                a later append may succeed.
        """
        self._check()
        assert values, "an append has records"
        batch = encode_records(_records(values, self.next_offset, now_ms))
        try:
            if self.file is None:
                self.file = self._filesystem.create(self.path, private=True)
                self._has_unsynced_name = True
            self.file.write(self.size_bytes, batch)
        except OSError as error:
            if self.file is None:
                raise LogFailed(self.path, error) from error
            raise self.fail(error) from error
        self.size_bytes += len(batch)
        self.next_offset += len(values)

    def sync(self) -> None:
        """Return when everything that was appended survives a loss of power.

        Raises:
            OSError: give it to `fail`: the sync must not be repeated.
        """
        if self.file is not None:
            self.file.sync()
            if self._has_unsynced_name:
                directory, _, _ = self.path.rpartition("/")
                self._filesystem.sync_directory(directory)
                self._has_unsynced_name = False

    def fail(self, error: OSError) -> LogFailed:
        """Let the log fail for good [log/fail-stop]. Return what to raise."""
        if self.failure is None:
            self.failure = error
        return LogFailed(self.path, self.failure)

    def _check(self) -> None:
        if self.failure is not None:
            raise LogFailed(self.path, self.failure)

    def close(self) -> None:
        """Sync and close the file.

        Raises:
            LogFailed: the sync failed, or the log had failed before.
        """
        try:
            self._check()
            self.sync()
        except OSError as error:
            raise self.fail(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        if self.file is not None:
            self.file.close()
            self.file = None

    # --- rewriting --------------------------------------------------------------------------------

    def copy(self) -> "RecordFile":
        """Return an empty log whose file may take the place of this one."""
        return RecordFile(self._filesystem, self.path + COPY_SUFFIX, durable=self._durable)

    def write_copy(self, values: Sequence[bytes], now_ms: int) -> Iterator[None]:
        """Append records to a copy in steps, and sync it.

        Raises:
            LogFailed, OSError: that failed. The log itself is as it was.
        """
        assert self.path.endswith(COPY_SUFFIX), f"{self.path} is no copy"
        assert self.file is None, "a copy is written once"
        file = self.file = self._filesystem.create(self.path, private=True)
        # The last record has a batch of its own: a bad batch with a good one behind it is damage.
        most, last = values[:-1], values[-1:]
        for first in range(0, len(most), _RECORDS_A_BATCH):
            self.append(most[first : first + _RECORDS_A_BATCH], now_ms)
            yield
        if last:
            self.append(last, now_ms)
        if self._durable:
            file.sync()

    def replace(self, copy: "RecordFile") -> None:
        """Let a copy with all records take the place of the file. It has been synced.

        The next sync makes that survive a loss of power; before it the old file counts, which has
        the same records.

        Raises:
            LogFailed: the file could not be renamed.
        """
        self._check()
        assert copy.path == self.path + COPY_SUFFIX, f"{copy.path} is a copy of another log"
        assert copy.failure is None, "a copy that has failed takes no place"
        assert copy.file is not None or not copy.next_offset, "a copy with records has a file"
        try:
            self._filesystem.rename(copy.path, self.path)
        except OSError as error:
            raise self.fail(error) from error
        self.abandon()
        self.file, self.size_bytes = copy.file, copy.size_bytes
        self.next_offset, self._has_unsynced_name = copy.next_offset, True

    def discard(self) -> None:
        """Remove a copy that is not used. Raises OSError."""
        assert self.path.endswith(COPY_SUFFIX), f"{self.path} is no copy"
        self.abandon()
        if self._filesystem.exists(self.path):
            self._filesystem.remove(self.path)


def security_log(filesystem: FileSystem, directory: str, *, durable: bool) -> RecordFile:
    """Return the security log of a data directory; it is not read yet."""
    topic, partition = SECURITY_LOG
    return RecordFile(filesystem, f"{directory}/{topic}-{partition}", durable=durable)


def _records(values: Sequence[bytes], first_offset: int, now_ms: int) -> list[Record]:
    return [Record(first_offset + at, now_ms, None, value) for at, value in enumerate(values)]
