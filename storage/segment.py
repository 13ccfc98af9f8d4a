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

from coterie.storage.errors import CorruptLog
from coterie.storage.index import INDEX_INTERVAL_BYTES, IndexDamaged, SegmentIndexes
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.placing import BatchFacts
from coterie.storage.scan import BadBatch, scan, steps
from coterie.storage.time_search import check_last_entry, first_at_or_after, greatest_timestamp_from
from coterie.storage.torn_tail import TailTrust, refusal

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
        "_damage", "_epochs", "_files", "_gaps", "_indexed", "_places", "_stem", "_suffix",
        "_times_checked", "_verified",
        "base_offset", "first_timestamp_ms", "indexes", "next_offset", "path", "size", "trusted",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        gaps: bool = False,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        epochs: LeaderEpochs | None = None,
        suffix: str = "",
    ) -> None:
        """Nothing is opened here: use `create`, `open_older` or `recover`.

        `suffix` ends the names of the files while they are made by the cleaner (`swap.py`).
        """
        stem = f"{directory}/{base_offset:020d}"
        self._files = files
        self._stem = stem
        self._suffix = suffix
        self.path = f"{stem}.log{suffix}"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        # The greatest timestamp of the segment's first batch: rolling by time counts from it.
        self.first_timestamp_ms = -1
        self._gaps = gaps
        # What batches are held against when they are checked.
        self._epochs = epochs
        self.indexes = SegmentIndexes(files, stem, base_offset, index_interval_bytes, suffix)
        # Whether the indexes are in use, and whether they were made from the log in this process.
        self._indexed = self.trusted = True
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
        """Take an older segment as it is; only its size and its last batches are looked at.

        Raises:
            CorruptLog: it is empty or ends elsewhere than the next one begins: segments between
                them are missing, or its end is.
        """
        self.size = self._files.filesystem.size(self.path)
        self.next_offset = next_offset
        self._indexed = self.trusted = False
        if self.size == 0 and not self._gaps:
            raise CorruptLog(self.path, 0, f"the file is empty, but {next_offset} follows")
        missing = self._missing_end(self._end_by_index())
        if missing is not None:
            raise CorruptLog(self.path, missing.position, missing.reason)

    def recover(self, recovery_point: int, trust: TailTrust) -> TailCut | None:
        """Scan the segment, make its indexes anew, and cut its tail where it may be torn.

        Args:
            recovery_point: every batch below this offset is known to have been synced; one that is
                bad is damage and not a torn tail.
            trust: what may be torn above it.

        Raises:
            CorruptLog: a bad batch where no torn tail can be.
        """
        file = self._files.get(self.path)
        size = file.size()
        bad = self._add_all(size)
        if bad is None:
            return None
        why: str | None = None
        if trust is TailTrust.CLEAN or self.next_offset < recovery_point:
            why = trust.value
        elif trust is TailTrust.PROCESS_DIED:
            why = refusal(file, bad.position, size, self.next_offset, gaps=self._gaps)
        if why is not None:
            raise CorruptLog(self.path, bad.position, f"{bad.reason} ({why})")
        file.truncate(bad.position)
        # If the cut were lost with the power, old bytes could follow new ones and fit.
        file.sync()
        return TailCut(self.path, bad.position, size - bad.position, bad.reason)

    def recover_older(
        self, next_offset: int, recovery_point: int, trust: TailTrust
    ) -> TailCut | None:
        """As `recover`, of a segment that another one follows at `next_offset`.

        Where nothing is torn it is an older segment from now on. A cut of no bytes tells of an end
        that is missing.
        """
        cut = self.recover(recovery_point, trust)
        if cut is not None:
            return cut
        found, self.next_offset = self.next_offset, next_offset
        missing = self._missing_end(found)
        if missing is None:
            self.indexes.finish()
            return None
        if trust is not TailTrust.POWER_LOST_UNSYNCED or found < recovery_point:
            raise CorruptLog(self.path, missing.position, missing.reason)
        self.next_offset = found
        return TailCut(self.path, self.size, 0, missing.reason)

    def file_bytes(self) -> int:
        """How long the file is, looked up."""
        return self._files.filesystem.size(self.path)

    def append(self, data: bytes, batches: list[BatchFacts]) -> None:
        """Write placed batches at the end. After an OSError the log must not append here again."""
        position = self.size
        self._files.get(self.path).write(position, data)
        if position == 0:
            self.first_timestamp_ms = batches[0][4]
        last_offset = self.indexes.add(batches, position)
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
        self._looking(self._check_times_once)
        return self._looking(lambda: first_at_or_after(self, timestamp_ms, min_offset))

    def greatest_timestamp_from(self, min_offset: int) -> int:
        """The greatest timestamp of the records from `min_offset` on, -1 if none; walks over all.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        return self._looking(lambda: greatest_timestamp_from(self, min_offset))

    def max_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp (-1: none), and the last offset of the first batch to have it."""
        self._looking(self._check_times_once)
        return self.indexes.max_timestamp

    def remember(self, offset: int, position: int) -> None:
        """Note that the batch beginning with `offset` stands, or will stand, at `position`."""
        places = self._places
        if len(places) >= MAX_REMEMBERED_PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = position

    def finish(self) -> None:
        """Write what the indexes lack: the segment is complete, or the log is being closed."""
        self.indexes.finish()
        for path in self.indexes.paths:
            self._files.drop(path)

    def release(self) -> None:
        """Let the files go. The segment can still be read; they are opened again then."""
        for path in (self.path, *self.indexes.paths):
            self._files.drop(path)

    def remove(self) -> None:
        """Remove the files, the log last: the others without it are litter, not the reverse."""
        self.release()
        filesystem = self._files.filesystem
        for path in self.file_names():
            if filesystem.exists(path):
                filesystem.remove(path)

    def file_names(self) -> tuple[str, ...]:
        """All files that may belong to the segment, the log last."""
        if self._suffix:
            return (*self.indexes.paths, self.path)
        kafkas = (self._stem + suffix for suffix in _KAFKAS_OWN)
        return (*self.indexes.paths, *kafkas, self.path)

    def rename(self, suffix: str) -> None:
        """Give the files the names that end with `suffix`; the log last, for `swap.py`'s reasons.

        Raises:
            OSError: some files may have their new names. The segment can be read all the same.
        """
        self.release()
        filesystem = self._files.filesystem
        for index in (self.indexes.offsets, self.indexes.times):
            _, _, kind = index.path.removesuffix(self._suffix).rpartition(".")
            target = f"{self._stem}.{kind}{suffix}"
            filesystem.rename(index.path, target)
            index.path = target
        target = f"{self._stem}.log{suffix}"
        filesystem.rename(self.path, target)
        self.path, self._suffix = target, suffix

    def position_of(self, offset: int) -> int:
        """Where the batch that holds `offset`, or else the next one, begins; the size if none.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        if offset <= self.base_offset:
            return 0
        place = self._looking(lambda: self.locate(offset))
        return self.size if place is None else place[0]

    def is_checked(self, position: int, end: int) -> bool:
        """Whether this process wrote or checked all of a stretch of the file."""
        start, stop = self._verified
        return start <= position and end <= stop

    def first_batch_timestamp(self) -> int:
        """The greatest timestamp of the first batch, -1 if there is none.

        Raises:
            CorruptLog: no batch stands at the front of the file.
        """
        if self.first_timestamp_ms < 0 and self.size:
            file = self._files.get(self.path)
            self.first_timestamp_ms = self._looking(lambda: next(steps(file, 0, self.size))[4])
        return self.first_timestamp_ms

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
            if self.trusted:
                raise CorruptLog(self.path, bad.position, bad.reason) from None
        except IndexDamaged:
            pass
        self._rebuild_indexes()
        try:
            return look()
        except BadBatch as bad:
            raise CorruptLog(self.path, bad.position, bad.reason) from None

    def _read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        place = self.locate(offset)
        if place is None:
            return b"", self.next_offset
        position, expected_offset = place
        end, next_offset = self.size, self.next_offset
        if position + max_bytes < end:
            end, next_offset = self._cut(position, position + max_bytes)
        self.verify(position, end, expected_offset)
        data = self.bytes_at(position, end - position)
        self.remember(next_offset, end)
        return data, next_offset

    def steps_from(self, position: int) -> Iterator[BatchFacts]:
        """Each batch from `position` on, by its header alone."""
        return steps(self._files.get(self.path), position, self.size)

    def locate(self, offset: int) -> tuple[int, int | None] | None:
        """The first batch that ends at or after `offset`: position, and base offset where known."""
        position = self._places.get(offset)
        if position is not None:
            return (position, offset) if position < self.size else None
        start, greatest_base, expected_offset = 0, MAX_OFFSET, self.base_offset
        entry = self.indexes.offsets.floor(offset - self.base_offset)
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
        if start and (start >= self.size or (offset < self.next_offset and not self._gaps)):
            raise IndexDamaged(f"{self.path} has no batch where its index says")
        return None

    def _cut(self, position: int, limit: int) -> tuple[int, int]:
        """Where the last batch that ends by `limit` ends, or the first one; its next offset."""
        file = self._files.get(self.path)
        last: BatchFacts | None = None
        start = max(limit, position + 1)
        while last is None:
            # From the last index entry there are few batches to step over; from the one before it
            # if the batch that it points to ends too late.
            entry = self.indexes.offsets.floor(start - 1, 1)
            start = position if entry is None else max(entry[1], position)
            for facts in steps(file, start, self.size):
                if facts[0] + facts[1] > limit and (last or start > position):
                    break
                last = facts
        end = last[0] + last[1]
        if not self.trusted:
            # An index that led between two batches would make a cut that is none.
            for _ in scan(file, last[0], end, None, gaps=self._gaps):
                pass
        return end, last[3] + 1

    def bytes_at(self, position: int, length: int) -> bytes:
        """So many bytes of the file. Raises BadBatch where it ends before."""
        data = self._files.get(self.path).read(position, length)
        if len(data) < length:
            raise BadBatch(position + len(data), f"the file ends here and not at byte {self.size}")
        return data

    def verify(self, position: int, end: int, expected_offset: int | None) -> None:
        """Check the batches of a stretch unless that was done before."""
        if self.is_checked(position, end):
            return
        start, stop = self._verified
        file = self._files.get(self.path)
        next_offset = self.next_offset
        batches = scan(file, position, end, expected_offset, gaps=self._gaps, epochs=self._epochs)
        for facts in batches:
            next_offset = facts[3] + 1
        missing = self._missing_end(next_offset) if end == self.size else None
        if missing is not None:
            raise missing
        # One stretch is remembered: the common one of a reader who goes forward.
        self._verified = (start, end) if start <= position <= stop else (position, end)

    # Below: the indexes.

    def _check_times_once(self) -> None:
        if not (self._times_checked or self.trusted or not self.size):
            check_last_entry(self)
            self._times_checked = True

    def _add_all(self, size: int) -> BadBatch | None:
        """Make indexes and end from `size` bytes of the log, up to the first bad batch."""
        self.indexes.clear()
        self._indexed = self.trusted = True
        file = self._files.get(self.path)
        found: BadBatch | None = None

        def until_bad() -> Iterator[BatchFacts]:
            nonlocal found
            try:
                for facts in scan(
                    file, 0, size, self.base_offset, gaps=self._gaps, epochs=self._epochs
                ):
                    if facts[3] - self.base_offset > MAX_RELATIVE_OFFSET:
                        # With gaps any greater offset could follow, but for the index's int32.
                        found = BadBatch(facts[0], f"offset {facts[3]} is beyond the segment")
                        return
                    yield facts
            except BadBatch as bad:
                found = bad

        self.next_offset = self.indexes.add(until_bad(), 0) + 1
        self.size = size if found is None else found.position
        self._verified = (0, self.size)
        if self.size:
            self.first_timestamp_ms = next(steps(file, 0, self.size))[4]
        return found

    def _load_indexes(self) -> None:
        """Take an older segment's indexes from their files, or make those that can't be right."""
        if self.indexes.load(self.size):
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
        self.indexes.finish()

    def _end_by_index(self) -> int:
        """Where the segment ends, by the few batches behind the last entry of its index.

        An index that can't be used tells nothing: the end that is expected. The first read looks
        closer.
        """
        if not self.size or not self.indexes.load(self.size):
            return self.next_offset
        entry = self.indexes.offsets.last
        next_offset, position = self.base_offset, 0
        if entry is not None:
            next_offset, position = self.base_offset + entry[0], entry[1]
        try:
            for facts in steps(self._files.get(self.path), position, self.size):
                if facts[2] > next_offset and not self._gaps:
                    return self.next_offset
                next_offset = facts[3] + 1
        except BadBatch:
            return self.next_offset
        return next_offset

    def _missing_end(self, next_offset: int) -> BadBatch | None:
        """What is wrong if the file's last batch is not the one before the next segment's first."""
        if next_offset == self.next_offset or (self._gaps and next_offset < self.next_offset):
            return None
        reason = f"the file ends before offset {next_offset} and not {self.next_offset}"
        return BadBatch(self.size, reason)
