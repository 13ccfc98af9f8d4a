"""A walk over the batches in a log's files that continues after damage, in bounded memory.

`storage.batches.scan` stops at the first invalid batch, as a server must. This walk serves people
who want to see what a log contains: it reports where and why a batch is invalid, and searches for
the next place with a batch whose checksum is right. Invalid bytes at the end of the last segment,
without a batch after them, are what a crash leaves (a torn tail); the server truncates them when it
starts. Invalid bytes anywhere else are damage.

Files are only read, in chunks. A running server may append to the log and remove segments during
the walk.
"""

import os
import re
from collections.abc import Callable, Iterator
from io import FileIO
from typing import NamedTuple, Self

from coterie.cli.dump.log_files import PartitionFiles, SegmentFile
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import HEADER_BYTES
from coterie.protocol.records import BatchHeader, check_crc, read_header
from coterie.storage.index import MAX_RELATIVE_OFFSET

_CHUNK_BYTES = 1 << 20
# Longer batches are taken for damage, because Kafka's socket.request.max.bytes is 100 MiB. The
# limit bounds the memory that a damaged length can cost.
MAX_BATCH_BYTES = 128 << 20

# What follows the base offset in a header: a length of up to MAX_BATCH_BYTES, the magic byte,
# attributes whose high byte is unused, an offset delta and a record count that are not negative.
_AFTER_OFFSET = rb"[\x00-\x08].{7}\x02.{4}\x00[\x00-\x7f][\x00-\x7f].{33}[\x00-\x7f]"
_AFTER_LEGACY_OFFSET = rb"[\x00-\x08].{7}[\x00\x01].{4}[\x00-\x0f]"


class Batch(NamedTuple):
    """A whole batch with the right checksum, at `position` of its segment's file."""

    path: str
    position: int
    header: BatchHeader
    data: bytes


class Damage(NamedTuple):
    """Bytes of a file that are not a batch, or not the batch that belongs there.

    Attributes:
        path: the file.
        position: where the bytes begin.
        size: their number; 0 if only the offsets are wrong of the batch at `position`, which
            follows as a `Batch`.
        reason: what is wrong.
        torn: whether this is a torn tail.
    """

    path: str
    position: int
    size: int
    reason: str
    torn: bool = False


class RemovedSegment(NamedTuple):
    """A segment that the server removed between the listing and the opening."""

    path: str


Found = Batch | Damage | RemovedSegment


def walk_partition(
    partition: PartitionFiles, from_offset: int, count_bytes: Callable[[int], None]
) -> Iterator[Found]:
    """Return what is in those segments of a partition that can hold offsets from `from_offset` on.

    The segments are listed again after each one, so no batch is repeated or missed if the server
    rolls or compacts the log in between.

    Args:
        partition: where the segments are.
        from_offset: segments that end before this offset are not opened.
        count_bytes: called from time to time with the number of bytes read since the last call.
    """
    done: tuple[int, int] | None = None
    expected = from_offset
    while (segment := _next_segment(partition, expected, done)) is not None:
        try:
            file = _ReadOnlyFile(segment.path)
        except FileNotFoundError:
            yield RemovedSegment(segment.path)
            if partition.only:
                return
            continue
        with file:
            walk = _SegmentWalk(file, segment, count_bytes)
            for found in walk.run():
                if not isinstance(found, Batch) or found.header.next_offset > expected:
                    yield found
            done = (segment.base_offset, file.inode)
        end = walk.next_offset if segment.end_offset is None else segment.end_offset
        expected = max(expected, end)
        if partition.only:
            return


def _next_segment(
    partition: PartitionFiles, expected: int, done: tuple[int, int] | None
) -> SegmentFile | None:
    """Return the segment that holds an offset, or the first one after it.

    Args:
        partition: where the segments are.
        expected: the offset.
        done: base offset and inode of the last segment, which is not returned again.
    """
    segments = partition.segments()
    if partition.only:
        name = os.path.basename(partition.only)
        known = [s for s in segments if os.path.basename(s.path) == name]
        if not known:
            # A copy under another name has no neighbours, so it is treated as the last segment.
            known = [SegmentFile(partition.only, 0, None)]
        return known[0]._replace(path=partition.only)
    for segment in segments:
        if segment.end_offset is not None and segment.end_offset <= expected:
            continue
        if done is None or segment.base_offset > done[0]:
            return segment
        # The same name with another inode is the result of a compaction: it has to be read too.
        if segment.base_offset == done[0] and _inode(segment.path) not in (done[1], None):
            return segment
    return None


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


class _ReadOnlyFile:
    """A file that is read at given positions, by a seek before each: Windows has no pread."""

    def __init__(self, path: str) -> None:
        self._file = FileIO(path)
        self.inode = os.fstat(self._file.fileno()).st_ino

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def read(self, position: int, length: int) -> bytes:
        parts = []
        self._file.seek(position)
        while length > 0 and (part := self._file.read(length)):
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _SegmentWalk:
    """The walk over one segment."""

    def __init__(
        self, file: _ReadOnlyFile, segment: SegmentFile, count_bytes: Callable[[int], None]
    ) -> None:
        self.next_offset = segment.base_offset
        self._file = file
        self._segment = segment
        self._count_bytes = count_bytes
        self._end = file.size()
        self._chunk_start, self._chunk = 0, b""
        self._legacy = False

    def run(self) -> Iterator[Batch | Damage]:
        """Return batches and damage in the order of the file."""
        position = counted = 0
        while position < self._end:
            batch = self._whole_batch(position)
            if isinstance(batch, str):
                following = self._next_batch(position + 1)
                yield self._damage(position, following, reason=batch)
                position = following
                continue
            header, data = batch
            wrong = self._wrong_offsets(header)
            if wrong:
                yield Damage(self._segment.path, position, 0, wrong)
            if not wrong or header.base_offset < self.next_offset:
                # If offsets go back, those of the batch before may be the wrong ones.
                self.next_offset = header.next_offset
            self._legacy = header.magic < 2
            yield Batch(self._segment.path, position, header, data)
            position += header.length_bytes
            if position - counted >= _CHUNK_BYTES:
                self._count_bytes(position - counted)
                counted = position
        self._count_bytes(position - counted)

    def _damage(self, position: int, following: int, *, reason: str) -> Damage:
        is_tail = following >= self._end and self._segment.end_offset is None
        return Damage(self._segment.path, position, following - position, reason, is_tail)

    def _whole_batch(self, position: int) -> tuple[BatchHeader, bytes] | str:
        """Return the batch at a position, or the reason why there is none."""
        start = self._read(position, HEADER_BYTES)
        try:
            header = read_header(start)
        except MalformedFrame:
            if not any(start):
                return "zeros"
            if len(start) < HEADER_BYTES:
                return f"the file ends {len(start)} bytes into a header"
            return "no batch header of a known format"
        length = header.length_bytes
        if length > MAX_BATCH_BYTES:
            return f"the batch claims a length of {length} bytes"
        if position + length > self._end and not self._has_grown(position + length):
            return f"the batch claims {length} bytes but {self._end - position} are left"
        data = self._read(position, length)
        if not check_crc(data, header):
            return f"the checksum is not {header.crc:#010x}"
        return header, data

    def _has_grown(self, end: int) -> bool:
        """Return whether a running server has written the rest of its last batch by now."""
        if self._file.size() < end:
            return False
        self._end = end
        return True

    def _wrong_offsets(self, header: BatchHeader) -> str:
        """Return what is wrong with the offsets of a batch; "" if they are right.

        The checksum does not cover the base offset, so it has to be checked separately. Gaps are
        right, because compaction removes records; going back, or into the next segment, is not.
        """
        first, last = header.base_offset, header.last_offset
        if last < first or first < self.next_offset:
            return f"offsets {first} to {last} where {self.next_offset} is next"
        end = self._segment.end_offset
        if end is not None and last >= end:
            return f"offsets {first} to {last} in a segment that ends before {end}"
        base = self._segment.base_offset
        if last - base > MAX_RELATIVE_OFFSET:
            return f"offsets {first} to {last} in a segment that begins with {base}"
        return ""

    def _next_batch(self, position: int) -> int:
        """Return the position of the next batch with the right checksum, or the file's end."""
        pattern = self._header_pattern()
        while position < self._end:
            chunk = self._read(position, min(_CHUNK_BYTES, self._end - position))
            # A preallocated file may end in gigabytes of zeros, which are skipped quickly.
            for match in pattern.finditer(chunk) if chunk.strip(b"\x00") else ():
                at = position + match.start()
                if self._is_plausible(chunk, match.start(), at) and not isinstance(
                    self._whole_batch(at), str
                ):
                    return at
            if position + len(chunk) >= self._end:
                break
            position += len(chunk) - HEADER_BYTES
        return self._end

    def _header_pattern(self) -> re.Pattern[bytes]:
        """Return a pattern for the places where a header can begin.

        The upper four bytes of an offset are those of the segment's base offset, or one more.
        """
        upper = self._segment.base_offset >> 32
        offsets = b"|".join(re.escape(n.to_bytes(4, "big")) for n in (upper, upper + 1))
        rest = _AFTER_LEGACY_OFFSET if self._legacy else _AFTER_OFFSET
        return re.compile(rb"(?=(?:%b).{4}%b)" % (offsets, rest), re.DOTALL)

    def _is_plausible(self, chunk: bytes, start: int, position: int) -> bool:
        """Return whether a header is plausible enough to read its batch.

        Args:
            chunk: a chunk of the file.
            start: where the header begins in the chunk.
            position: where it begins in the file.
        """
        try:
            header = read_header(chunk, start)
        except MalformedFrame:
            return False
        relative = header.base_offset - self._segment.base_offset
        return (
            position + header.length_bytes <= self._end
            and 0 <= relative <= MAX_RELATIVE_OFFSET
            and header.record_count <= header.last_offset_delta + 1
        )

    def _read(self, position: int, length: int) -> bytes:
        """Return bytes of the file, through a buffer of one chunk; fewer at the file's end."""
        at = position - self._chunk_start
        if at < 0 or at + length > len(self._chunk):
            size = min(max(length, _CHUNK_BYTES), max(0, self._end - position))
            self._chunk_start, self._chunk = position, self._file.read(position, size)
            at = 0
        return self._chunk[at : at + length]
