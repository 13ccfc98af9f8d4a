"""One segment of a log: `.log`, `.index`, `.timeindex`, named by the offset it begins with.

The last segment of a log is the active one: it is appended to, and at start its tail is scanned and
cut at the first bad batch, since a crash may have torn what nobody was told is there. Older
segments never change; nothing unacknowledged can be in them, so whatever is wrong there is damage
(promise P3) and is raised as `CorruptLog` when a read meets it. To look at a batch of an older
segment for the first time in this process means to check it; `_verified` remembers the stretch that
has been.

No read loads a file: an index entry, or the place where an earlier read stopped, tells the
position. Indexes are hints (see `index.py`). One that leads astray is rebuilt once from the log.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from protocol.errors import MalformedFrame
from protocol.records import BatchHeader, read_header, record_timestamps
from storage.errors import CorruptLog
from storage.index import INDEX_INTERVAL_BYTES, IndexDamaged, SegmentIndexes
from storage.open_files import OpenFiles
from storage.placing import BatchFacts
from storage.scan import BadBatch, scan, steps

# Places remembered where readers stopped: one for each consumer that follows a partition, and some.
MAX_REMEMBERED_PLACES = 64
# Relative offsets are int32 in the index.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
# What Kafka keeps beside a segment and we do not need: aborted transactions, producers.
_KAFKAS_OWN = (".txnindex", ".snapshot")

_Answer = TypeVar("_Answer")


class TailCut(NamedTuple):
    """What recovery cut off: nobody was told that these bytes are stored."""

    path: str
    position: int
    bytes_cut: int
    reason: str


class Segment:
    """The batches from `base_offset` to before `next_offset`, in `size` bytes."""

    __slots__ = (
        "_damage", "_files", "_gaps", "_indexed", "_indexes", "_places", "_times_checked",
        "_trusted", "_verified",
        "base_offset", "first_timestamp_ms", "next_offset", "path", "size",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        gaps: bool = False,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    ) -> None:
        """Nothing is opened here: use `create`, `open_older` or `recover`."""
        stem = f"{directory}/{base_offset:020d}"
        self._files = files
        self.path = stem + ".log"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        # The greatest timestamp of the segment's first batch: rolling by time counts from it.
        self.first_timestamp_ms = -1
        self._gaps = gaps
        self._indexes = SegmentIndexes(files, stem, base_offset, index_interval_bytes)
        # Whether the indexes are in use, and whether they were made from the log in this process.
        self._indexed = self._trusted = True
        self._times_checked = False
        # What kept the indexes from being made: no read scans the whole file twice to find it
        # again.
        self._damage: CorruptLog | None = None
        # The stretch of the file that this process wrote or checked.
        self._verified = (0, 0)
        # Offset that a reader will ask for next -> position of the batch that begins with it.
        self._places: dict[int, int] = {}

    def create(self) -> None:
        """Make the file of a new active segment."""
        self._files.create(self.path)

    def open_older(self, next_offset: int) -> None:
        """Take an older segment as it is; only its size is looked at.

        Raises:
            CorruptLog: it is empty, though a segment follows at a greater offset.
        """
        self.size = self._files.filesystem.size(self.path)
        self.next_offset = next_offset
        self._indexed = self._trusted = False
        if self.size == 0 and not self._gaps:
            raise CorruptLog(self.path, 0, f"the file is empty, but {next_offset} follows")

    def recover(self, recovery_point: int) -> TailCut | None:
        """Scan the active segment, make its indexes anew, and cut its tail at the first bad batch.

        Args:
            recovery_point: every batch below this offset is known to have been synced; one that is
                bad is damage and not a torn tail.

        Raises:
            CorruptLog: a bad batch below the recovery point.
        """
        file = self._files.get(self.path)
        size = file.size()
        bad = self._add_all(size)
        if bad is None:
            return None
        if self.next_offset < recovery_point:
            raise CorruptLog(self.path, bad.position, bad.reason)
        file.truncate(bad.position)
        # If the cut were lost with the power, old bytes could follow new ones and fit.
        file.sync()
        return TailCut(self.path, bad.position, size - bad.position, bad.reason)

    def append(self, data: bytes, batches: list[BatchFacts]) -> None:
        """Write placed batches at the end. After an OSError the log must not append here again."""
        position = self.size
        self._files.get(self.path).write(position, data)
        if position == 0:
            self.first_timestamp_ms = batches[0][4]
        last_offset = self._indexes.add(batches, position)
        end = position + len(data)
        start, stop = self._verified
        if stop == position:
            self._verified = (start, end)
        self.next_offset = last_offset + 1
        self.size = end

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from the one that holds `offset`, and the offset after them.

        At least one batch, even if it is longer than `max_bytes`. Where the segment has no batch at
        or after `offset`: no bytes, and the segment's end.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        return self._looking(lambda: self._read(offset, max_bytes))

    def first_at_or_after(self, timestamp_ms: int, min_offset: int) -> tuple[int, int] | None:
        """The first record from `min_offset` on that is not older: (its timestamp, its offset).

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        self._looking(self._check_times)
        return self._looking(lambda: self._first_at_or_after(timestamp_ms, min_offset))

    def greatest_timestamp_from(self, min_offset: int) -> int:
        """The greatest timestamp of the records from `min_offset` on, -1 if none; walks over all.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        return self._looking(lambda: self._greatest_timestamp_from(min_offset))

    def max_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp (-1: none), and the last offset of the first batch to have it."""
        self._looking(self._check_times)
        return self._indexes.max_timestamp

    def remember(self, offset: int, position: int) -> None:
        """Note that the batch beginning with `offset` stands, or will stand, at `position`."""
        places = self._places
        if len(places) >= MAX_REMEMBERED_PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = position

    def finish(self) -> None:
        """Write what the indexes lack: the segment is complete, or the log is being closed."""
        self._indexes.finish()
        for path in self._indexes.paths:
            self._files.drop(path)

    def release(self) -> None:
        """Let the files go. The segment can still be read; they are opened again then."""
        for path in (self.path, *self._indexes.paths):
            self._files.drop(path)

    def remove(self) -> None:
        """Remove the files, the log last: the others without it are litter, not the reverse."""
        filesystem = self._files.filesystem
        stem = self.path.removesuffix(".log")
        for path in (*self._indexes.paths, *(stem + suffix for suffix in _KAFKAS_OWN), self.path):
            self._files.drop(path)
            if filesystem.exists(path):
                filesystem.remove(path)

    # Below: reading. What may raise BadBatch or IndexDamaged is only called through _looking.

    def _looking(self, look: Callable[[], _Answer]) -> _Answer:
        """`look`, and once again with indexes made anew if it was led astray by those found."""
        if self._damage is not None:
            raise self._damage
        if not self._indexed:
            self._load_indexes()
        try:
            return look()
        except BadBatch as bad:
            if self._trusted:
                raise CorruptLog(self.path, bad.position, bad.reason) from None
        except IndexDamaged:
            pass
        self._rebuild_indexes()
        try:
            return look()
        except BadBatch as bad:
            raise CorruptLog(self.path, bad.position, bad.reason) from None

    def _read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        place = self._locate(offset)
        if place is None:
            return b"", self.next_offset
        position, expected_offset = place
        end, next_offset = self.size, self.next_offset
        if position + max_bytes < end:
            end, next_offset = self._cut(position, position + max_bytes)
        self._verify(position, end, expected_offset)
        data = self._file_bytes(position, end - position)
        self.remember(next_offset, end)
        return data, next_offset

    def _locate(self, offset: int) -> tuple[int, int | None] | None:
        """The first batch that ends at or after `offset`: position, and base offset where known."""
        position = self._places.get(offset)
        if position is not None:
            return (position, offset) if position < self.size else None
        start, greatest_base, expected_offset = 0, MAX_OFFSET, self.base_offset
        entry = self._indexes.offsets.floor(offset - self.base_offset)
        known = entry is None
        if entry is not None:
            greatest_base, start = self.base_offset + entry[0], entry[1]
        file = self._files.get(self.path)
        for position, _, base_offset, last_offset, _ in steps(file, start, self.size):
            if not self.base_offset <= base_offset <= greatest_base:
                raise BadBatch(position, f"offset {base_offset} is not what the index says")
            if last_offset >= offset:
                return position, expected_offset if known else None
            expected_offset, known, greatest_base = last_offset + 1, True, MAX_OFFSET
        return None

    def _cut(self, position: int, limit: int) -> tuple[int, int]:
        """Where the last batch that ends by `limit` ends, or the first one; its next offset."""
        file = self._files.get(self.path)
        last: BatchFacts | None = None
        start = max(limit, position + 1)
        while last is None:
            # From the last index entry there are few batches to step over; from the one before it
            # if the batch that it points to ends too late.
            entry = self._indexes.offsets.floor(start - 1, 1)
            start = position if entry is None else max(entry[1], position)
            for facts in steps(file, start, self.size):
                if facts[0] + facts[1] > limit and (last or start > position):
                    break
                last = facts
        end = last[0] + last[1]
        if not self._trusted:
            # An index that led between two batches would make a cut that is none.
            for _ in scan(file, last[0], end, None, gaps=self._gaps):
                pass
        return end, last[3] + 1

    def _file_bytes(self, position: int, length: int) -> bytes:
        data = self._files.get(self.path).read(position, length)
        if len(data) < length:
            raise BadBatch(position + len(data), f"the file ends here and not at byte {self.size}")
        return data

    def _verify(self, position: int, end: int, expected_offset: int | None) -> None:
        """Check the batches of a stretch unless that was done before."""
        start, stop = self._verified
        if start <= position and end <= stop:
            return
        file = self._files.get(self.path)
        next_offset = self.next_offset
        for facts in scan(file, position, end, expected_offset, gaps=self._gaps):
            next_offset = facts[3] + 1
        missing = self._missing_end(next_offset) if end == self.size else None
        if missing is not None:
            raise missing
        # One stretch is remembered: the common one of a reader who goes forward.
        self._verified = (start, end) if start <= position <= stop else (position, end)

    def _first_at_or_after(self, timestamp_ms: int, min_offset: int) -> tuple[int, int] | None:
        entry = self._indexes.times.floor(timestamp_ms)
        offset = min_offset if entry is None else max(min_offset, self.base_offset + entry[1])
        place = self._locate(offset)
        if place is None:
            return None
        file = self._files.get(self.path)
        for position, length_bytes, _, _, max_timestamp_ms in steps(file, place[0], self.size):
            if max_timestamp_ms < timestamp_ms:
                continue
            self._verify(position, position + length_bytes, None)
            batch = self._file_bytes(position, length_bytes)
            for found in _timestamps(batch, read_header(batch), min_offset):
                if found[0] >= timestamp_ms:
                    return found
        return None

    def _greatest_timestamp_from(self, min_offset: int) -> int:
        place = self._locate(min_offset)
        if place is None:
            return -1
        greatest_ms = -1
        for position, length_bytes, base_offset, _, max_timestamp_ms in steps(
            self._files.get(self.path), place[0], self.size
        ):
            if base_offset >= min_offset:
                greatest_ms = max(greatest_ms, max_timestamp_ms)
            else:
                batch = self._file_bytes(position, length_bytes)
                for timestamp_ms, _ in _timestamps(batch, read_header(batch), min_offset):
                    greatest_ms = max(greatest_ms, timestamp_ms)
        return greatest_ms

    # Below: the indexes.

    def _check_times(self) -> None:
        """Check once that a time index from a file ends with the segment's greatest timestamp.

        Kafka and we finish it with that entry. If it was cut, times would be looked for in vain.
        What is walked is the stretch behind the batch with the greatest timestamp, the last one as
        a rule.
        """
        if self._times_checked or self._trusted or not self.size:
            return
        timestamp_ms, offset = self._indexes.max_timestamp
        place = self._locate(offset)
        if place is None:
            raise IndexDamaged(f"{self.path} does not have the last offset of its time index")
        greatest_ms = -1
        for _, _, _, _, max_timestamp_ms in steps(self._files.get(self.path), place[0], self.size):
            if greatest_ms == -1 and max_timestamp_ms != timestamp_ms:
                raise IndexDamaged(f"{self.path}: offset {offset} has another timestamp")
            greatest_ms = max(greatest_ms, max_timestamp_ms)
        if greatest_ms != timestamp_ms:
            raise IndexDamaged(f"{self.path} has a greater timestamp than its time index")
        self._times_checked = True

    def _add_all(self, size: int) -> BadBatch | None:
        """Make indexes and end from `size` bytes of the log, up to the first bad batch."""
        self._indexes.clear()
        self._indexed = self._trusted = True
        file = self._files.get(self.path)
        found: BadBatch | None = None

        def until_bad() -> Iterator[BatchFacts]:
            nonlocal found
            try:
                yield from scan(file, 0, size, self.base_offset, gaps=self._gaps)
            except BadBatch as bad:
                found = bad

        self.next_offset = self._indexes.add(until_bad(), 0) + 1
        self.size = size if found is None else found.position
        self._verified = (0, self.size)
        if self.size:
            self.first_timestamp_ms = next(steps(file, 0, self.size))[4]
        return found

    def _load_indexes(self) -> None:
        """Take an older segment's indexes from their files, or make those that can't be right."""
        if self._indexes.load(self.size):
            self._indexed = True
        else:
            self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        # Where an older segment ends is told by its size and by the one that follows.
        size, next_offset = self.size, self.next_offset
        bad = self._add_all(size)
        found, self.size, self.next_offset = self.next_offset, size, next_offset
        bad = bad or self._missing_end(found)
        if bad is not None:
            self._damage = CorruptLog(self.path, bad.position, bad.reason)
            raise self._damage
        self._indexes.finish()

    def _missing_end(self, next_offset: int) -> BadBatch | None:
        """What is wrong if the file's last batch is not the one before the next segment's first."""
        if next_offset == self.next_offset or self._gaps:
            return None
        reason = f"the file ends before offset {next_offset} and not {self.next_offset}"
        return BadBatch(self.size, reason)


def _timestamps(batch: bytes, header: BatchHeader, min_offset: int) -> list[tuple[int, int]]:
    """(timestamp, offset) of a batch's records from `min_offset` on.

    A batch that can't be opened (a producer's nonsense behind a right checksum) counts as one
    record with the greatest timestamp at the first offset, so that who starts there misses nothing.
    """
    try:
        found = list(record_timestamps(batch, header))
    except MalformedFrame:
        return [(header.max_timestamp_ms, max(header.base_offset, min_offset))]
    return [each for each in found if each[1] >= min_offset]
