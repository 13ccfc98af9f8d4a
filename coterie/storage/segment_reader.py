"""Reading one segment of a log: finding batches by offset, and checking them when first read.

No read loads a file. The position of a batch comes from the index, or from the place where an
earlier read stopped. An index is a hint [log/offset-index]: if it leads to a wrong place,
`IndexDamaged` is raised, or `BadBatch` if the log itself may be wrong. `Segment` catches both,
rebuilds the indexes once, and tries again.
"""

from collections.abc import Iterator

from coterie.storage.batches import BadBatch, BatchFacts, ProducerBatchReader, scan, steps
from coterie.storage.index import INDEX_INTERVAL_BYTES, IndexDamaged, SegmentIndexes
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment_digests import FILE_NAME, SegmentDigest, link

# How many places are remembered where a read stopped: one for each consumer that follows a
# partition, and some more.
MAX_REMEMBERED_PLACES = 64
# Above every offset: a read without a last one.
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF


class SegmentReader:
    """The batches of a segment from `base_offset` to before `next_offset`, in `size` bytes.

    Attributes:
        path: the log file.
        base_offset: the offset that names the segment.
        next_offset: where the next segment begins, or will begin.
        size: the length of the log file that is in use.
        digest: of its batches, if `digested`; until a segment was read, of those read so far.
        indexes: the segment's indexes.
        trusted: whether the indexes were made from the log by this process.
        expected: what the segment may be, if that is known [recovery/segment-digests].
    """

    __slots__ = (
        "_alone", "_checked", "_digest_end", "_digested", "_epochs", "_files", "_gaps", "_places",
        "base_offset", "digest", "expected", "indexes", "next_offset", "path", "size", "trusted",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        stem: str,
        base_offset: int,
        *,
        gaps: bool = False,
        digested: bool = False,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        epochs: LeaderEpochs | None = None,
        suffix: str = "",
    ) -> None:
        """Nothing is opened yet.

        Args:
            files: the open files of the file system.
            stem: the path of the files without their extensions.
            base_offset: the offset that names the segment.
            gaps: whether offsets may be missing between batches [log/segments].
            digested: whether the digest is kept up. With gaps it is, in any case.
            index_interval_bytes: the log between two index entries.
            epochs: the log's leader epochs, to be compared with those of the batches.
            suffix: what the names of the files end with while the cleaner writes them.
        """
        self._files = files
        self._gaps = gaps
        self._digested = gaps or digested
        self._epochs = epochs
        self.path = f"{stem}.log{suffix}"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.indexes = SegmentIndexes(files, stem, base_offset, index_interval_bytes, suffix)
        self.trusted = True
        self.expected: tuple[SegmentDigest, ...] = ()
        # The digest is of the batches before this position.
        self.digest = self._digest_end = 0
        # The stretch of the file that this process wrote or checked.
        self._checked = (0, 0)
        # The offset that a reader will ask for next, and the position of the batch that begins with
        # it.
        self._places: dict[int, int] = {}
        # The batch that was last returned alone: its first and last offset, where it begins and
        # ends, and for how many bytes it was asked. A share group reads a batch record by record.
        self._alone = (0, -1, 0, 0, 0)

    def remember(self, offset: int, position: int) -> None:
        """Note that the batch that begins with `offset` is, or will be, at `position`."""
        places = self._places
        if len(places) >= MAX_REMEMBERED_PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = position

    @property
    def has_gaps(self) -> bool:
        """Whether offsets may be missing between batches."""
        return self._gaps

    @property
    def entry(self) -> SegmentDigest:
        """What the segment is, if all of its batches were written or read in their order."""
        assert self._digest_end == self.size, "the digest includes all batches"
        return SegmentDigest(self.size, self.digest)

    def is_checked(self, position: int, end: int) -> bool:
        """Return whether this process wrote or checked all of a stretch of the file."""
        start, stop = self._checked
        return start <= position and end <= stop

    # What follows may raise BadBatch or IndexDamaged.

    def read_batches(
        self, offset: int, max_bytes: int, wanted_offset: int = MAX_OFFSET
    ) -> tuple[bytes, int]:
        """Return whole batches from the one that holds `offset`, and the offset after them.

        At least one batch is returned, even if it is longer than `max_bytes`, and none behind the
        one that holds `wanted_offset`. Without a batch at or after `offset` no bytes are returned,
        and the segment's end.
        """
        base_offset, last_offset, position, end, asked_bytes = self._alone
        if base_offset <= offset <= last_offset and (
            max_bytes <= asked_bytes or wanted_offset <= last_offset
        ):
            return self.bytes_at(position, end - position), last_offset + 1
        place = self.locate(offset)
        if place is None:
            return b"", self.next_offset
        position, expected_offset = place
        end, next_offset, is_alone = self.size, self.next_offset, False
        if position + max_bytes < end or wanted_offset < next_offset - 1:
            last_position, length_bytes, base_offset, last_offset, _ = self._cut(
                position, position + max_bytes, wanted_offset
            )
            end, next_offset = last_position + length_bytes, last_offset + 1
            is_alone = last_position == position
        assert end > position, "a read returns at least one batch"
        self.check(position, end, expected_offset)
        if is_alone:
            # The next batch is there and would exceed the limit, so that stays so. If it is only
            # not wanted, no more is known than that this one is returned whatever the limit is.
            asked_bytes = max_bytes if last_offset < wanted_offset else 0
            self._alone = (base_offset, last_offset, position, end, asked_bytes)
        data = self.bytes_at(position, end - position)
        self.remember(next_offset, end)
        return data, next_offset

    def steps_from(self, position: int) -> Iterator[BatchFacts]:
        """Yield each batch from `position` on, by its header alone."""
        return steps(self._files.get(self.path), position, self.size)

    def locate(self, offset: int) -> tuple[int, int | None] | None:
        """Return the position of the first batch that ends at or after `offset`; None if none does.

        The second number is the base offset that the batch must have, or None if that is not known.
        """
        position = self._places.get(offset)
        if position is not None:
            return (position, offset) if position < self.size else None
        start, greatest_base, expected_offset = 0, MAX_OFFSET, self.base_offset
        entry = self.indexes.offsets.floor(offset - self.base_offset)
        is_known = entry is None
        if entry is not None:
            relative_offset, start = entry
            if start < 0:
                raise IndexDamaged(f"{self.path} has no batch before byte 0")
            greatest_base = self.base_offset + relative_offset
        file = self._files.get(self.path)
        for position, _, base_offset, last_offset, _ in steps(file, start, self.size):
            if not self.base_offset <= base_offset <= greatest_base:
                raise BadBatch(position, f"offset {base_offset} is not what the index says")
            if last_offset >= offset:
                return position, expected_offset if is_known else None
            expected_offset, is_known, greatest_base = last_offset + 1, True, MAX_OFFSET
        if start and (start >= self.size or (offset < self.next_offset and not self._gaps)):
            raise IndexDamaged(f"{self.path} has no batch where its index says")
        return None

    def _cut(self, position: int, limit: int, wanted_offset: int) -> BatchFacts:
        """Return the last batch that ends by `limit`, and none behind that with `wanted_offset`.

        The first batch, at `position`, counts even if it ends behind the limit.
        """
        file, index = self._files.get(self.path), self.indexes.offsets
        last: BatchFacts | None = None
        start, entry = max(limit, position + 1), None
        is_by_offset = wanted_offset < self.next_offset
        if is_by_offset:
            entry = index.floor(wanted_offset - self.base_offset)
        if not is_by_offset or (entry is not None and entry[1] >= start):
            entry = index.floor(start - 1, 1)
        while last is None:
            # There are few batches behind the last index entry. If the batch that it points to ends
            # too late, go back by one entry.
            start = position if entry is None else max(entry[1], position)
            for facts in steps(file, start, self.size):
                batch_position, length_bytes, _, last_offset, _ = facts
                if batch_position + length_bytes > limit and (last or start > position):
                    break
                last = facts
                if last_offset >= wanted_offset:
                    break
            entry = None if last else index.floor(start - 1, 1)
        if not self.trusted:
            # If the index pointed into the middle of a batch, this would not be one.
            last_position, length_bytes, _, _, _ = last
            for _ in scan(file, last_position, last_position + length_bytes, None, gaps=self._gaps):
                pass
        return last

    def bytes_at(self, position: int, length: int) -> bytes:
        """Return `length` bytes of the file from `position` on."""
        data = self._files.get(self.path).read(position, length)
        if len(data) < length:
            raise BadBatch(position + len(data), f"the file ends here and not at byte {self.size}")
        return data

    def check(
        self,
        position: int,
        end: int,
        expected_offset: int | None,
        producers: ProducerBatchReader | None = None,
    ) -> None:
        """Check the batches of a stretch, unless that was done before [log/reads].

        Args:
            position: where the first batch begins.
            end: where the last batch ends.
            expected_offset: see `scan`.
            producers: see `scan`. With it the batches are read in any case.
        """
        if producers is None and self.is_checked(position, end):
            return
        start, stop = self._checked
        file = self._files.get(self.path)
        next_offset = self.next_offset
        batches = scan(
            file,
            position,
            end,
            expected_offset,
            gaps=self._gaps,
            epochs=self._epochs,
            producers=producers,
        )
        if self.expected and position == self._digest_end:
            found = list(batches)
            self.digest, self._digest_end = link(self.digest, found), end
            batches = iter(found)
        for _, _, _, last_offset, _ in batches:
            next_offset = last_offset + 1
        missing = self._missing_end(next_offset) if end == self.size else None
        if missing is not None:
            raise missing
        assert end <= self.size, "what is checked is in use"
        # One stretch is remembered, which is enough for a reader that goes forward.
        self._checked = (start, end) if start <= position <= stop else (position, end)

    def _missing_end(self, next_offset: int) -> BadBatch | None:
        """Return what is wrong if the last batch is not the one before the next segment's first.

        Args:
            next_offset: the offset after the last batch.
        """
        if self._digest_end == self.size and self.expected and self.entry not in self.expected:
            return BadBatch(0, f"its batches are not those that {FILE_NAME} tells of")
        if next_offset == self.next_offset or (self._gaps and next_offset < self.next_offset):
            return None
        reason = f"the file ends before offset {next_offset} and not {self.next_offset}"
        return BadBatch(self.size, reason)
