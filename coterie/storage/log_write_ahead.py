"""What of one log is durable, in its own files or in the write-ahead log.

A file that is synced covers everything that was appended to it before. A write-ahead file covers
the bytes that were copied into it; as long as it exists, the next start may write them into the
segments again, so these segments must not be replaced [recovery/write-ahead]. A replacement
asks `check_replaceable` first, whatever its caller has looked at before.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.storage.errors import SegmentInUse
from coterie.storage.segment import Segment
from coterie.storage.segment_list import SegmentList
from coterie.storage.write_ahead_format import Entry, PartitionId


class LogOffsetMetadata(NamedTuple):
    """An offset of a log and where it is (Kafka's class of this name).

    Attributes:
        offset: the offset.
        base_offset: of the segment.
        position: in the segment's file.
        digest: of the segment's batches before it [recovery/write-ahead-replay].
    """

    offset: int
    base_offset: int
    position: int
    digest: int


def end_of(segment: Segment) -> LogOffsetMetadata:
    """Return the end of a segment."""
    return LogOffsetMetadata(segment.next_offset, segment.base_offset, segment.size, segment.digest)


class LogWriteAhead:
    """The part of the write-ahead log that concerns one log.

    Attributes:
        partition_id: the partition, None if its directory does not name its topic's id. Then
            nothing is copied, because it could not be found again.
        covered: everything before it is durable.
    """

    __slots__ = ("_live", "_segments", "covered", "partition_id")

    def __init__(self, segments: SegmentList) -> None:
        """Everything is durable, as after the opening of a log that is synced."""
        assert segments.all, "an open log has an active segment"
        self.partition_id: PartitionId | None = None
        self.covered = end_of(segments.all[-1])
        self._segments = segments
        # The first segment that has records in each write-ahead file.
        self._live: dict[bytes, int] = {}

    def note(self, end: LogOffsetMetadata) -> None:
        """Note that everything before `end` is durable."""
        assert end.offset <= self._segments.all[-1].next_offset, "only what exists is durable"
        if end.offset > self.covered.offset:
            self.covered = end

    @property
    def replaceable_end(self) -> int:
        """The offset before which segments have no records in the write-ahead log, for good."""
        first_uncovered = self.covered.offset
        return min(first_uncovered, *self._live.values()) if self._live else first_uncovered

    def check_replaceable(self, segments: Sequence[Segment]) -> None:
        """Check that no write-ahead file has records of these segments, or will have some.

        Raises:
            SegmentInUse: one has, or will.
        """
        assert segments, "a replacement has segments"
        end_offset = self.replaceable_end
        for segment in segments:
            if segment.next_offset > end_offset:
                raise SegmentInUse(segment.path, end_offset)

    def missing_bytes(self) -> int:
        """Return how many bytes are not durable."""
        return sum(segment.size - position for segment, position, _ in self._missing())

    def missing(self) -> list[Entry]:
        """Return what is not durable.

        Raises:
            OSError, BadBatch: it could not be read.
        """
        assert self.partition_id is not None, "bytes without a name are not copied"
        entries = []
        for segment, position, digest in self._missing():
            data = segment.bytes_at(position, segment.size - position)
            entries.append(Entry(self.partition_id, segment.base_offset, position, data, digest))
        return entries

    def begin(self, file_id: bytes) -> None:
        """Note that what is missing is about to be copied into a write-ahead file."""
        missing = self._missing()
        assert missing, "a frame copies what is not durable"
        first, _, _ = missing[0]
        self._live.setdefault(file_id, first.base_offset)

    def settled(self, file_id: bytes) -> None:
        """Note that a write-ahead file was removed."""
        assert file_id in self._live, "a file that is settled has records of the log"
        del self._live[file_id]

    def _missing(self) -> list[tuple[Segment, int, int]]:
        """Return the segments that are not durable, where that begins, and the digest there."""
        offset, base_offset, position, digest = self.covered
        found: list[tuple[Segment, int, int]] = []
        for segment in reversed(self._segments.all):
            if segment.next_offset <= offset:
                break
            start = (position, digest) if segment.base_offset == base_offset else (0, 0)
            assert start[0] <= segment.size, "a segment does not shrink while it is copied"
            if start[0] < segment.size:
                found.append((segment, *start))
        found.reverse()
        return found
