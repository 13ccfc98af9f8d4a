"""The segments of a log in the order of their offsets: finding, reading, replacing them."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from coterie.storage.aborted_transactions import (
    AbortedTransaction,
    TransactionIndex,
    overlapping,
)
from coterie.storage.batches import until
from coterie.storage.segment import Segment
from coterie.storage.segment_reader import MAX_OFFSET


class SegmentList:
    """The segments of one log; the last one is active.

    Attributes:
        all: the segments. Only this class changes the list.
    """

    __slots__ = ("_bases", "all")

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        # The base offsets, for searches.
        self._bases = [segment.base_offset for segment in segments]
        assert self._bases == sorted(set(self._bases)), "offsets ascend"

    @property
    def size_bytes(self) -> int:
        """What the segments take up, without their indexes."""
        return sum(segment.size for segment in self.all)

    def bytes_between(self, first: int, last: int) -> int:
        """Return the size of the batches from one offset to before another.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        return sum(
            segment.position_of(last) - segment.position_of(first)
            for segment in self.all
            if segment.base_offset < last and segment.next_offset > first
        )

    def holds(self, segment: Segment) -> bool:
        """Return whether this very segment is one of the log's."""
        number = bisect_right(self._bases, segment.base_offset) - 1
        return number >= 0 and self.all[number] is segment

    def add(self, segment: Segment) -> None:
        """Add a new active segment."""
        assert not self._bases or segment.base_offset > self._bases[-1], "offsets ascend"
        assert not segment.size, "a segment is empty when it becomes the active one"
        self.all.append(segment)
        self._bases.append(segment.base_offset)
        assert len(self.all) == len(self._bases), "each segment has its offset in the list"

    def remove_before(self, offset: int, sync_names: Callable[[], None] = lambda: None) -> None:
        """Remove the segments that end at or before `offset`, and their files.

        The active segment stays.

        Args:
            offset: where the log is to begin.
            sync_names: called between two segments, so that no loss of power brings the first one
                back without the second [log/power-loss].

        Raises:
            OSError: a file could not be removed.
        """
        assert self.all, "a log has an active segment"
        removed, active = 0, self.all[-1]
        while len(self.all) > 1 and self._bases[1] <= offset:
            if removed:
                sync_names()
            segment = self.all.pop(0)
            assert segment is not active, "the active segment is never removed"
            del self._bases[0]
            segment.remove()
            removed += 1
        assert self.all[-1] is active, "the active segment stays"
        assert len(self.all) == len(self._bases), "each segment has its offset in the list"
        assert self.all[0].base_offset == self._bases[0], "each segment has its offset in the list"

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Let a cleaned segment take the place of neighbouring ones, from the next read on.

        Files are not touched: `swap.py` does that.
        """
        assert all(map(self.holds, old)), "the cleaner has checked that they still exist"
        assert self.all[-1] not in old, "the active segment is never cleaned"
        number = self.all.index(old[0])
        assert list(old) == self.all[number : number + len(old)], "they are neighbours, in order"
        assert cleaned.base_offset == old[0].base_offset, "it has the name of the first"
        assert cleaned.next_offset >= old[-1].next_offset, "it covers the offsets of all of them"
        self.all[number : number + len(old)] = [cleaned]
        self._bases[number : number + len(old)] = [cleaned.base_offset]
        assert len(self.all) == len(self._bases), "each segment has its offset in the list"
        assert cleaned.next_offset <= self._bases[number + 1], "it ends before the next one"

    def read(
        self, offset: int, max_bytes: int, wanted_offset: int = MAX_OFFSET
    ) -> tuple[bytes, int]:
        """Return whole batches of one segment from `offset` on, and the offset after them.

        See `SegmentReader.read_batches`.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while True:
            data, next_offset = self.all[number].read(offset, max_bytes, wanted_offset)
            number += 1
            # After compaction a segment may have nothing left from `offset` on.
            if data or number == len(self.all):
                return data, next_offset

    def read_committed(
        self, offset: int, max_bytes: int, stable_offset: int, wanted_offset: int = MAX_OFFSET
    ) -> tuple[bytes, list[AbortedTransaction]]:
        """Return whole batches before the last stable offset.

        Args:
            offset: where to begin, before the last stable offset.
            max_bytes: as for `read`.
            stable_offset: the last stable offset.
            wanted_offset: as for `read`.

        Returns:
            The batches, and the aborted transactions that overlap them.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        assert offset < stable_offset, "a read of committed records begins before its end"
        data, next_offset = self.read(offset, max_bytes, wanted_offset)
        if next_offset > stable_offset:
            data, next_offset = until(data, stable_offset)
        if not data:
            return data, []
        return data, list(overlapping(self.transactions_from(offset), offset, next_offset))

    def chunks(self, offset: int, end_offset: int, chunk_bytes: int) -> Iterator[bytes]:
        """Yield all batches from `offset` to `end_offset`: see `Log.chunks`."""
        while offset < end_offset:
            data, next_offset = self.read(offset, chunk_bytes)
            assert next_offset > offset, "a read makes progress"
            offset = next_offset
            if data:
                yield data

    def transactions_from(self, offset: int) -> Iterator[TransactionIndex]:
        """Yield the transaction indexes of the segment that holds `offset`, and of later ones."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.all[number:]:
            yield segment.transactions

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record that is not older [log/time-lookup].

        Args:
            timestamp_ms: epoch milliseconds.
            start_offset: records before it do not count.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        for segment in self.all:
            if segment.next_offset <= start_offset or not segment.size:
                continue
            greatest_ms, _ = segment.max_timestamp()
            if greatest_ms >= timestamp_ms:
                found = segment.first_at_or_after(timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp(self, start_offset: int) -> tuple[int, int]:
        """Return the greatest timestamp and the first offset that has it [log/time-lookup].

        Both are -1 if there is none.

        Args:
            start_offset: records before it do not count.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        segments = [segment for segment in self.all if segment.size]
        greatest = [timestamp_ms for timestamp_ms, _ in (each.max_timestamp() for each in segments)]
        found = self._first_with(max(greatest, default=-1), start_offset)
        if found is None and segments:
            # The record that had it is before the log's start, in the first segment.
            greatest[0] = segments[0].greatest_timestamp_from(start_offset)
            found = self._first_with(max(greatest), start_offset)
        return found or (-1, -1)

    def _first_with(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        return self.offset_for_timestamp(timestamp_ms, start_offset) if timestamp_ms >= 0 else None
