"""The two indexes of a segment, in Kafka's files: where to begin looking for an offset or a time.

`.index` has entries of 8 bytes, `.timeindex` entries of 12 bytes [log/offset-index]. Both ascend
and are sparse, and both can be rebuilt from the log at any time. So they are never synced, the
newest entries stay in memory until there are enough of them for a write, and readers check what an
index says against the log.
"""

import struct
from collections.abc import Iterable
from typing import ClassVar

from coterie.storage.batches import BatchFacts
from coterie.storage.errors import is_shortage
from coterie.storage.open_files import OpenFiles

# Kafka's index.interval.bytes: the log between two entries.
INDEX_INTERVAL_BYTES = 4096
# Offsets in an index are int32, relative to the segment's base offset.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
# Entries kept in memory before they are written: 2 MiB of log, 4 to 6 KiB of memory.
PENDING_ENTRIES = 512
# A search among fewer entries reads all of them at once instead of halving further.
_READ_AT_ONCE = 512


class IndexDamaged(Exception):  # noqa: N818 - says what the index is
    """The index is not what was written. It can be rebuilt: the log has everything."""


class _Index:
    """Entries of a fixed size in a file, ascending by both numbers; the newest still in memory."""

    ENTRY: ClassVar[struct.Struct]

    __slots__ = ("_files", "_pending", "_written", "last", "path")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path
        self._written = 0
        self._pending = bytearray()
        # The newest entry, or None.
        self.last: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self._written + len(self._pending) // self.ENTRY.size

    def load(self) -> bool:
        """Take the entries of the file; return False if it is missing or no index."""
        size = self.ENTRY.size
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            return False
        length = file.size()
        if length % size:
            return False
        self._pending.clear()
        # Kafka allocates the file of an active segment beforehand, so after its crash there are
        # zeros behind the entries: search where they begin. An entry of zeros at the very front
        # would be a batch of one record at the base offset, for which Kafka makes no entry.
        low, high = 0, length // size
        zeros = bytes(size)
        while low < high:
            middle = (low + high) // 2
            if file.read(middle * size, size) == zeros:
                high = middle
            else:
                low = middle + 1
        self._written = low
        self.last = self._entry(low - 1) if low else None
        assert len(self) == low, "an index that was loaded has the entries of its file"
        return True

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on."""
        self._files.drop(self.path)
        self._files = files

    def clear(self) -> None:
        """Forget every entry. The file changes with the next `flush`."""
        self._written = 0
        self._pending.clear()
        self.last = None

    def append(self, first: int, second: int) -> None:
        """Add an entry, which must ascend."""
        assert self.last is None or self.last < (first, second), "entries ascend"
        self._pending += self.ENTRY.pack(first, second)
        self.last = (first, second)
        if len(self._pending) >= PENDING_ENTRIES * self.ENTRY.size:
            try:
                self.flush()
            except OSError as error:
                # The batch of this entry has been written. The next entry tries again.
                if not is_shortage(error):
                    raise

    def flush(self) -> None:
        """Write what is in memory, and cut the file to exactly the entries."""
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            file = self._files.create(self.path)
        assert len(self._pending) % self.ENTRY.size == 0, "entries are whole"
        start = self._written * self.ENTRY.size
        end = start + len(self._pending)
        if self._pending:
            file.write(start, bytes(self._pending))
            self._written = end // self.ENTRY.size
            self._pending.clear()
        if file.size() != end:
            file.truncate(end)
        assert self._written * self.ENTRY.size == end, "the file holds every entry"

    def floor(self, target: int, field: int = 0) -> tuple[int, int] | None:
        """Return the last entry whose number is not above `target`.

        Args:
            target: the greatest number that is accepted.
            field: which number of the entries to compare, 0 or 1.
        """
        low, high = 0, len(self)
        while high - low > _READ_AT_ONCE:
            middle = (low + high) // 2
            if self._entry(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        # The entry before `low` qualifies, if there is one; those from `high` on do not.
        entries = self._entries(max(low - 1, 0), high)
        count = len(entries) // self.ENTRY.size
        found = None
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            entry = self.ENTRY.unpack_from(entries, middle * self.ENTRY.size)
            if entry[field] <= target:
                found = entry
                low = middle + 1
            else:
                high = middle
        return found

    def _entry(self, number: int) -> tuple[int, int]:
        first, second = self.ENTRY.unpack(self._entries(number, number + 1))
        return first, second

    def _entries(self, start: int, end: int) -> bytes:
        """Return the bytes of the entries from `start` to before `end`, from file and memory."""
        assert 0 <= start <= end <= len(self), "only entries that exist are read"
        size = self.ENTRY.size
        written = self._written
        data = b""
        if start < written:
            stop = min(end, written)
            try:
                data = self._files.get(self.path).read(start * size, (stop - start) * size)
            except FileNotFoundError:
                raise IndexDamaged(f"{self.path} does not exist") from None
            if len(data) != (stop - start) * size:
                raise IndexDamaged(f"{self.path} is shorter than its {written} entries")
        if end > written:
            data += self._pending[max(start - written, 0) * size : (end - written) * size]
        return data


class OffsetIndex(_Index):
    """Entries of relative offset and position: the last offset of a batch, and where it begins."""

    ENTRY = struct.Struct(">ii")
    __slots__ = ()


class TimeIndex(_Index):
    """Entries of timestamp and relative offset: the greatest so far, and the batch that has it."""

    ENTRY = struct.Struct(">qi")
    __slots__ = ()


class SegmentIndexes:
    """Both indexes of a segment, fed with its batches in order."""

    __slots__ = (
        "_base_offset", "_interval_bytes", "_since_entry", "max_timestamp", "offsets", "times",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        stem: str,
        base_offset: int,
        interval_bytes: int,
        suffix: str = "",
    ) -> None:
        self.offsets = OffsetIndex(files, f"{stem}.index{suffix}")
        self.times = TimeIndex(files, f"{stem}.timeindex{suffix}")
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._since_entry = 0
        # The greatest timestamp, and the last offset of the first batch that had it.
        self.max_timestamp = (-1, base_offset)

    @property
    def paths(self) -> tuple[str, str]:
        """The two files."""
        return self.offsets.path, self.times.path

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on."""
        self.offsets.use(files)
        self.times.use(files)

    def clear(self) -> None:
        """Forget everything. The batches have to be added again."""
        self.offsets.clear()
        self.times.clear()
        self._since_entry = 0
        self.max_timestamp = (-1, self._base_offset)

    def add(self, batches: Iterable[BatchFacts], shift: int) -> int:
        """Add the next batches of the segment, at the moments of Kafka's LogSegment.append.

        Args:
            batches: their facts.
            shift: where the bytes that the positions count from begin in the file.

        Returns:
            The last offset of the last batch.
        """
        last_offset = self._base_offset - 1
        for facts in batches:
            last_offset = self.add_one(facts, shift)
        return last_offset

    def add_one(self, facts: BatchFacts, shift: int) -> int:
        """Add the next batch of the segment, as `add` does; return its last offset."""
        last_offset, max_timestamp_ms = facts[3], facts[4]
        if max_timestamp_ms > self.max_timestamp[0]:
            self.max_timestamp = (max_timestamp_ms, last_offset)
        since_entry = self._since_entry
        if since_entry > self._interval_bytes:
            self.offsets.append(last_offset - self._base_offset, facts[0] + shift)
            self._add_time_entry()
            since_entry = 0
        self._since_entry = since_entry + facts[1]
        return last_offset

    def is_full(self, size_bytes: int) -> bool:
        """Return whether one of the indexes has as many entries as fit into so many bytes.

        The last entry of the time index is kept for `finish`.
        """
        offsets, times = size_bytes // self.offsets.ENTRY.size, size_bytes // self.times.ENTRY.size
        return len(self.offsets) >= offsets or len(self.times) >= times - 1

    def finish(self) -> None:
        """Complete the indexes of a finished segment: add the greatest timestamp, write both."""
        self._add_time_entry()
        greatest_ms, _ = self.max_timestamp
        last_ms, _ = self.times.last or (-1, 0)
        assert last_ms >= greatest_ms, "a finished time index has the greatest timestamp"
        self.offsets.flush()
        self.times.flush()

    def load(self, log_bytes: int) -> bool:
        """Take the entries from the files; return False if they cannot belong to such a log.

        Args:
            log_bytes: the size of the segment's log file.
        """
        if not (self.offsets.load() and self.times.load()):
            return False
        if self.offsets.last is not None:
            relative_offset, position = self.offsets.last
            if not 0 <= position < log_bytes or relative_offset < 0:
                return False
        if self.times.last is None:
            # A finished segment ends with a time entry, unless it is empty.
            return log_bytes == 0
        timestamp_ms, relative_offset = self.times.last
        self.max_timestamp = (timestamp_ms, self._base_offset + relative_offset)
        return True

    def _add_time_entry(self) -> None:
        timestamp_ms, offset = self.max_timestamp
        last_ms, _ = self.times.last or (-1, 0)
        if timestamp_ms > last_ms:
            self.times.append(timestamp_ms, offset - self._base_offset)
