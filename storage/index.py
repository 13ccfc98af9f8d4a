"""The two indexes of a segment, in Kafka's files: where to begin looking for an offset or a time.

`.index` has entries of 8 bytes: an offset relative to the segment's base, and the position of the
batch that ends with it. `.timeindex` has entries of 12: a timestamp, and the relative offset of the
batch that first had it as the greatest so far. Both ascend, both are sparse (one entry per
index.interval.bytes of log), and both can be rebuilt from the log at any time. So they are never
synced, the newest entries stay in memory until there are enough for a write, and a reader treats
what an index says as a hint to be checked against the log.

Kafka allocates the files of an active segment beforehand; after its crash they end in zeros, which
are not entries.
"""

import struct
from collections.abc import Iterable
from typing import ClassVar

from coterie.storage.open_files import OpenFiles
from coterie.storage.placing import BatchFacts

# Kafka's index.interval.bytes: log between two entries.
INDEX_INTERVAL_BYTES = 4096
# Entries kept in memory before they are written: 2 MiB of log, 4 to 6 KiB of memory.
PENDING_ENTRIES = 512
# Below this many entries a search reads them all at once instead of going on halving.
_READ_AT_ONCE = 512


class IndexDamaged(Exception):  # noqa: N818 - says what the index is
    """The index can't be what was written. Rebuild it; the log has everything."""


class _Index:
    """Entries of fixed size in a file, ascending by both fields; the newest still in memory."""

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
        """Take the entries of the file; False when it is missing or no index, and to be rebuilt."""
        size = self.ENTRY.size
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            return False
        length = file.size()
        if length % size:
            return False
        self._pending.clear()
        # Entries first, zeros after them: find where the zeros begin. An entry of zeros at the very
        # front is a batch of one record at the segment's base offset, which Kafka does not index.
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
        return True

    def clear(self) -> None:
        """Forget every entry. The file follows at the next `flush`."""
        self._written = 0
        self._pending.clear()
        self.last = None

    def append(self, first: int, second: int) -> None:
        """Add an entry; the caller has made sure that it ascends."""
        self._pending += self.ENTRY.pack(first, second)
        self.last = (first, second)
        if len(self._pending) >= PENDING_ENTRIES * self.ENTRY.size:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory, and cut the file to exactly the entries."""
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            file = self._files.create(self.path)
        start = self._written * self.ENTRY.size
        end = start + len(self._pending)
        if self._pending:
            file.write(start, bytes(self._pending))
            self._written = end // self.ENTRY.size
            self._pending.clear()
        if file.size() != end:
            file.truncate(end)

    def floor(self, target: int, field: int = 0) -> tuple[int, int] | None:
        """The last entry whose first (or second, `field` 1) number is not above `target`."""
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
        """The bytes of the entries from `start` to before `end`, from file and memory."""
        size = self.ENTRY.size
        written = self._written
        data = b""
        if start < written:
            stop = min(end, written)
            try:
                data = self._files.get(self.path).read(start * size, (stop - start) * size)
            except FileNotFoundError:
                raise IndexDamaged(f"{self.path} is gone") from None
            if len(data) != (stop - start) * size:
                raise IndexDamaged(f"{self.path} is shorter than its {written} entries")
        if end > written:
            data += self._pending[max(start - written, 0) * size : (end - written) * size]
        return data


class OffsetIndex(_Index):
    """(offset relative to the segment's base, position of the batch that ends with it)."""

    ENTRY = struct.Struct(">ii")
    __slots__ = ()


class TimeIndex(_Index):
    """(greatest timestamp so far, relative offset of the batch that brought it)."""

    ENTRY = struct.Struct(">qi")
    __slots__ = ()


class SegmentIndexes:
    """Both indexes of a segment, fed with its batches in order at the moments Kafka does it."""

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
        # (greatest timestamp, last offset of the batch that first had it)
        self.max_timestamp = (-1, base_offset)

    @property
    def paths(self) -> tuple[str, str]:
        """The two files."""
        return self.offsets.path, self.times.path

    def clear(self) -> None:
        """Forget everything, to be fed anew."""
        self.offsets.clear()
        self.times.clear()
        self._since_entry = 0
        self.max_timestamp = (-1, self._base_offset)

    def add(self, batches: Iterable[BatchFacts], shift: int) -> int:
        """Take the next batches of the segment, which stand `shift` bytes behind what they say.

        The moments are those of Kafka's LogSegment.append.

        Returns:
            The last offset of the last batch.
        """
        last_offset = self._base_offset - 1
        since_entry, interval_bytes = self._since_entry, self._interval_bytes
        greatest_ms = self.max_timestamp[0]
        for position, length_bytes, _, last_offset, max_timestamp_ms in batches:
            if max_timestamp_ms > greatest_ms:
                greatest_ms = max_timestamp_ms
                self.max_timestamp = (max_timestamp_ms, last_offset)
            if since_entry > interval_bytes:
                self.offsets.append(last_offset - self._base_offset, position + shift)
                self._add_time_entry()
                since_entry = 0
            since_entry += length_bytes
        self._since_entry = since_entry
        return last_offset

    def finish(self) -> None:
        """The segment is complete: end with the greatest timestamp, and write both files."""
        self._add_time_entry()
        self.offsets.flush()
        self.times.flush()

    def load(self, log_bytes: int) -> bool:
        """Take the entries from the files; False when they can't belong to a log of that size."""
        if not (self.offsets.load() and self.times.load()):
            return False
        last = self.offsets.last
        if last is not None and (last[1] >= log_bytes or last[0] < 0):
            return False
        last_time = self.times.last
        if last_time is None:
            # A finished segment ends with a time entry, unless there is nothing in it.
            return log_bytes == 0
        self.max_timestamp = (last_time[0], self._base_offset + last_time[1])
        return True

    def _add_time_entry(self) -> None:
        timestamp_ms, offset = self.max_timestamp
        last = self.times.last
        if timestamp_ms > (-1 if last is None else last[0]):
            self.times.append(timestamp_ms, offset - self._base_offset)
