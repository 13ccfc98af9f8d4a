"""A walk over the batches of a log's files that goes on behind damage, in bounded memory.

`storage.scan` stops at the first batch that can't be, for a server must. This walk is for people
who want to see what is there: it tells where and why a batch can't be, and looks for the next place
where one stands whose checksum fits. What can't be read at the end of the last segment, with no
batch behind it, is what a crash leaves (a torn tail); the server cuts it off at its next start.
Anywhere else it is damage.

Files are only read, in chunks, and never longer than they are: the log of a running server grows
and loses segments meanwhile.
"""

import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from coterie.cli.log_files import PartitionFiles, SegmentFile
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import BatchHeader, check_crc, read_header

# What one read brings.
_CHUNK_BYTES = 1 << 20
# Longer batches are taken for damage: Kafka's socket.request.max.bytes is 100 MiB. It bounds the
# memory that a damaged length can cost.
MAX_BATCH_BYTES = 128 << 20
_HEADER_BYTES = 61
# Relative offsets in a segment are int32.
_MAX_RELATIVE_OFFSET = 0x7FFFFFFF

# What follows the offset of a header: a length up to MAX_BATCH_BYTES, the magic, attributes whose
# high byte nobody uses, an offset delta and a record count that are no negative numbers.
_BEHIND_OFFSET = rb"[\x00-\x08].{7}\x02.{4}\x00[\x00-\x7f][\x00-\x7f].{33}[\x00-\x7f]"
_BEHIND_LEGACY_OFFSET = rb"[\x00-\x08].{7}[\x00\x01].{4}[\x00-\x0f]"


class Batch(NamedTuple):
    """A whole batch whose checksum fits, at `position` of its segment's file."""

    path: str
    position: int
    header: BatchHeader
    data: bytes


class Damage(NamedTuple):
    """Bytes of a file that are no batch, or not the one that should stand there.

    `torn` where this is what a crash leaves at the end of a log. Without `size`, the batch that is
    told next stands at `position` itself: only its offsets are wrong.
    """

    path: str
    position: int
    size: int
    reason: str
    torn: bool = False


class Gone(NamedTuple):
    """A segment that was removed between being listed and being opened."""

    path: str


Found = Batch | Damage | Gone


def walk_partition(
    partition: PartitionFiles, from_offset: int, note_bytes: Callable[[int], None]
) -> Iterator[Found]:
    """Everything in a partition's segments that may hold offsets from `from_offset` on.

    The segments are listed anew behind each one, so that a cleaning or a roll in between neither
    repeats nor loses a batch.

    Args:
        partition: where they are.
        from_offset: segments that end before are not opened.
        note_bytes: called with the number of bytes done, now and then.
    """
    done: tuple[int, int] | None = None
    expected = from_offset
    while (segment := _next_segment(partition, expected, done)) is not None:
        try:
            file = _ReadOnly(segment.path)
        except FileNotFoundError:
            yield Gone(segment.path)
            if partition.only:
                return
            continue
        with file:
            walk = _Walk(file, segment, note_bytes)
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
    """The segment that holds `expected`, or the first one behind it; not the one just done."""
    segments = partition.segments()
    if partition.only:
        name = os.path.basename(partition.only)
        known = [s for s in segments if os.path.basename(s.path) == name]
        if not known:
            # A copy under another name: no neighbours, so it is the last one.
            known = [SegmentFile(partition.only, 0, None)]
        return known[0]._replace(path=partition.only)
    for segment in segments:
        if segment.end_offset is not None and segment.end_offset <= expected:
            continue
        if done is None or segment.base_offset > done[0]:
            return segment
        # The same name again is another file where a cleaning has put one in its place.
        if segment.base_offset == done[0] and _inode(segment.path) not in (done[1], None):
            return segment
    return None


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


class _ReadOnly:
    """A file that is read at positions."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self._descriptor).st_ino

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        parts = []
        while length > 0 and (part := os.pread(self._descriptor, length, position)):
            parts.append(part)
            position += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Walk:
    """The walk over one segment."""

    def __init__(
        self, file: _ReadOnly, segment: SegmentFile, note_bytes: Callable[[int], None]
    ) -> None:
        self.next_offset = segment.base_offset
        self._file = file
        self._segment = segment
        self._note_bytes = note_bytes
        self._end = file.size()
        self._start, self._buffer = 0, b""
        self._legacy = False

    def run(self) -> Iterator[Batch | Damage]:
        """Batches and damage, in the order of the file."""
        position = noted = 0
        while position < self._end:
            whole = self._whole_batch(position)
            if isinstance(whole, str):
                following = self._resync(position + 1)
                yield self._damage(position, following, whole)
                position = following
                continue
            header, data = whole
            wrong = self._wrong_offsets(header)
            if wrong:
                yield Damage(self._segment.path, position, 0, wrong)
            if not wrong or header.base_offset < self.next_offset:
                # Where offsets go back, the one before may have been the wrong one.
                self.next_offset = header.next_offset
            self._legacy = header.magic < 2
            yield Batch(self._segment.path, position, header, data)
            position += header.length_bytes
            if position - noted >= _CHUNK_BYTES:
                self._note_bytes(position - noted)
                noted = position
        self._note_bytes(position - noted)

    def _damage(self, position: int, following: int, reason: str) -> Damage:
        is_tail = following >= self._end and self._segment.end_offset is None
        return Damage(self._segment.path, position, following - position, reason, is_tail)

    def _whole_batch(self, position: int) -> tuple[BatchHeader, bytes] | str:
        """The batch at a position; or why there is none."""
        start = self._view(position, _HEADER_BYTES)
        try:
            header = read_header(start)
        except MalformedFrame:
            if not any(start):
                return "zeros"
            if len(start) < _HEADER_BYTES:
                return f"the file ends {len(start)} bytes into a header"
            return "no header of a known kind begins here"
        length = header.length_bytes
        if length > MAX_BATCH_BYTES:
            return f"a batch of {length} bytes is claimed"
        if position + length > self._end and not self._has_grown(position + length):
            return f"{length} bytes are claimed where {self._end - position} are left"
        data = self._view(position, length)
        if not check_crc(data, header):
            return f"the checksum is not {header.crc:#010x}"
        return header, data

    def _has_grown(self, end: int) -> bool:
        """Whether a running server has written the rest of its last batch by now."""
        if self._file.size() < end:
            return False
        self._end = end
        return True

    def _wrong_offsets(self, header: BatchHeader) -> str:
        """What is wrong with the offsets, which no checksum covers; "" if nothing is.

        Offsets may be missing: compaction removes records. They may not go back, nor into the next
        segment.
        """
        first, last = header.base_offset, header.last_offset
        if last < first or first < self.next_offset:
            return f"offsets {first} to {last} where {self.next_offset} follows"
        end = self._segment.end_offset
        if end is not None and last >= end:
            return f"offsets {first} to {last} in a segment that ends before {end}"
        base = self._segment.base_offset
        if last - base > _MAX_RELATIVE_OFFSET:
            return f"offsets {first} to {last} in a segment that begins with {base}"
        return ""

    def _resync(self, position: int) -> int:
        """Where the next batch stands whose checksum fits; the file's end if none does."""
        pattern = self._candidate()
        while position < self._end:
            chunk = self._view(position, min(_CHUNK_BYTES, self._end - position))
            # A file that was preallocated ends in zeros without end.
            for match in pattern.finditer(chunk) if chunk.strip(b"\x00") else ():
                at = position + match.start()
                if self._plausible(chunk, match.start(), at) and not isinstance(
                    self._whole_batch(at), str
                ):
                    return at
            if position + len(chunk) >= self._end:
                break
            position += len(chunk) - _HEADER_BYTES
        return self._end

    def _candidate(self) -> re.Pattern[bytes]:
        """Where a header can begin: offsets of a segment differ in their lower four bytes, or by
        one in the upper ones.
        """
        upper = self._segment.base_offset >> 32
        offsets = b"|".join(re.escape(n.to_bytes(4, "big")) for n in (upper, upper + 1))
        behind = _BEHIND_LEGACY_OFFSET if self._legacy else _BEHIND_OFFSET
        return re.compile(rb"(?=(?:%b).{4}%b)" % (offsets, behind), re.DOTALL)

    def _plausible(self, chunk: bytes, start: int, position: int) -> bool:
        """Whether the header at `start` of the chunk is worth reading its batch."""
        try:
            header = read_header(chunk, start)
        except MalformedFrame:
            return False
        relative = header.base_offset - self._segment.base_offset
        return (
            position + header.length_bytes <= self._end
            and 0 <= relative <= _MAX_RELATIVE_OFFSET
            and header.record_count <= header.last_offset_delta + 1
        )

    def _view(self, position: int, length: int) -> bytes:
        """Bytes of the file, from the chunk at hand or a new one; fewer where the file ends."""
        at = position - self._start
        if at < 0 or at + length > len(self._buffer):
            wanted = min(max(length, _CHUNK_BYTES), max(0, self._end - position))
            self._start, self._buffer = position, self._file.read(position, wanted)
            at = 0
        return self._buffer[at : at + length]
