"""Ranges of log offsets: the unit of work. Planned by size, read by offset, found again if moved.

A range is read from whatever segments hold its offsets at that moment. A segment that a cleaner
replaces between planning and reading is looked up again; one that it replaces while it is read goes
on being read, for an open file outlives its name. Either way each surviving record of the range
comes exactly once.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from coterie.pipeline.codec.damage import Damage
from coterie.pipeline.codec.decoder import (
    CHUNK_BYTES,
    CHUNK_GROWTH,
    END_OF_LOG,
    SegmentDecoder,
)
from coterie.pipeline.codec.framing import MAX_BATCH_BYTES, frame
from coterie.pipeline.codec.numbers import Buffer
from coterie.pipeline.codec.piece import Source
from coterie.pipeline.segments import (
    Segment,
    index_entries,
    list_segments,
    position_before,
    segment_of,
)

# A cleaner that is quicker than a reader can find its segments does not exist; something else is
# wrong then, and an endless search would hide it.
_MAX_LOOKUPS = 100


class Hint(NamedTuple):
    """Where a batch stands, or one before it; worth nothing once the file is another.

    A new segment often gets the inode of one that a cleaner has removed, so its name counts too.
    """

    base_offset: int
    inode: int
    position: int

    def is_of(self, segment: Segment, inode: int) -> bool:
        """Whether it tells of this file."""
        return (self.base_offset, self.inode) == (segment.base_offset, inode)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets of one partition, from `first_offset` to before `end_offset`.

    `hint` is where the range was found to begin.
    """

    directory: str
    log_partition: int
    first_offset: int
    end_offset: int = END_OF_LOG
    size_bytes: int = 0
    hint: Hint | None = None


class RangeStep(NamedTuple):
    """Rows from one piece of a segment, and what was left out of it."""

    source: Source
    rows: pa.RecordBatch
    damages: list[Damage]


def read_range(
    log_range: LogRange, view: str, *, crc: bool = True, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[RangeStep]:
    """The rows of a range, about a `chunk_bytes` of log at a time.

    Bytes at the very end of the log that are no whole batch come as damage of the reason `torn`;
    who follows a log ends his range before them.
    """
    offset = log_range.first_offset
    finished: int | None = None
    lookups = 0
    while offset < log_range.end_offset:
        segments = list_segments(log_range.directory)
        if not segments:
            return
        number = segment_of(segments, offset)
        try:
            descriptor = os.open(segments[number].path, os.O_RDONLY)
        except FileNotFoundError:
            lookups += 1
            if lookups > _MAX_LOOKUPS:
                raise
            continue
        try:
            inode = os.fstat(descriptor).st_ino
            if inode == finished:
                if number + 1 == len(segments):
                    return
                offset = segments[number + 1].base_offset
                continue
            lookups = 0
            decoder = _decoder(log_range, view, segments, number, offset, crc=crc)
            yield from _read_segment(
                log_range, segments, number, descriptor, decoder, offset, chunk_bytes
            )
        finally:
            os.close(descriptor)
        if decoder.finished:
            return
        finished = inode
        offset = max(offset, decoder.last_offset + 1)


def _decoder(
    log_range: LogRange,
    view: str,
    segments: list[Segment],
    number: int,
    offset: int,
    *,
    crc: bool,
) -> SegmentDecoder:
    segment = segments[number]
    end_offset = log_range.end_offset
    following = segments[number + 1].base_offset if number + 1 < len(segments) else None
    if segment.is_swap and following is not None:
        # The segments it was to replace are still there from here on.
        end_offset, following = min(end_offset, following), None
    return SegmentDecoder(
        view,
        Source(log_range.log_partition, segment.path, segment.base_offset),
        first_offset=offset,
        end_offset=end_offset,
        next_segment=following,
        crc=crc,
    )


def _read_segment(
    log_range: LogRange,
    segments: list[Segment],
    number: int,
    descriptor: int,
    decoder: SegmentDecoder,
    offset: int,
    chunk_bytes: int,
) -> Iterator[RangeStep]:
    """Decode one open segment from the batch with `offset` to its end or the range's."""
    segment = segments[number]
    status = os.fstat(descriptor)
    end = status.st_size
    if log_range.hint is not None and log_range.hint.is_of(segment, status.st_ino):
        position = log_range.hint.position if offset == log_range.first_offset else 0
    elif offset > segment.base_offset:
        position = position_before(segment, descriptor, offset)
    else:
        position = 0
    source = Source(log_range.log_partition, segment.path, segment.base_offset)
    wanted = chunk_bytes
    while position < end and not decoder.finished:
        data = os.pread(descriptor, min(wanted, end - position), position)
        if not data:
            return
        # A file that grew shorter meanwhile ends here; one piece is never longer than any batch.
        final = position + len(data) >= end or len(data) > 2 * MAX_BATCH_BYTES
        decoded = decoder.decode(data, position, final=final)
        if decoded.rows.num_rows or decoded.damages:
            yield RangeStep(source, decoded.rows, decoded.damages)
        if decoded.consumed:
            wanted = chunk_bytes
        elif final:
            return
        else:
            wanted *= CHUNK_GROWTH
        position += decoded.consumed


def plan_ranges(
    directory: str,
    log_partition: int,
    target_bytes: int,
    first_offset: int = 0,
    end_offset: int = END_OF_LOG,
) -> list[LogRange]:
    """A partition's offsets in ranges of about `target_bytes` of log each.

    Cuts are made between segments, and in long segments at batches that the index points to.
    """
    cuts: list[tuple[int, int]] = []  # first offset, bytes from there to the next cut
    for segment in list_segments(directory):
        cuts += _cuts(segment, target_bytes)
    ranges: list[LogRange] = []
    begin, size = first_offset, 0
    for number, (cut, size_bytes) in enumerate(cuts):
        following = cuts[number + 1][0] if number + 1 < len(cuts) else END_OF_LOG
        if following <= first_offset or cut >= end_offset:
            continue
        if size and size + size_bytes > target_bytes and cut > begin:
            ranges.append(LogRange(directory, log_partition, begin, cut, size))
            begin, size = cut, 0
        size += size_bytes
    if size:
        ranges.append(LogRange(directory, log_partition, begin, end_offset, size))
    return ranges


def _cuts(segment: Segment, target_bytes: int) -> list[tuple[int, int]]:
    """Where a segment may be cut: its beginning, and batches about `target_bytes` apart."""
    starts = [(segment.base_offset, 0)]
    if segment.size_bytes >= 2 * target_bytes:
        starts += _inner_cuts(segment, target_bytes)
    ends = [position for _, position in starts[1:]] + [segment.size_bytes]
    return [(start[0], end - start[1]) for start, end in zip(starts, ends, strict=True)]


def _inner_cuts(segment: Segment, target_bytes: int) -> list[tuple[int, int]]:
    try:
        descriptor = os.open(segment.path, os.O_RDONLY)
    except FileNotFoundError:
        return []
    found = []
    last = segment.size_bytes
    try:
        for position, base_offset in index_entries(segment, descriptor):
            is_apart = last - position >= target_bytes and position >= target_bytes
            if is_apart and base_offset > segment.base_offset:
                found.append((base_offset, position))
                last = position
    finally:
        os.close(descriptor)
    return found[::-1]


class WholeEnd(NamedTuple):
    """Where whole batches end: the next offset, how many bytes lie before it, and a hint there."""

    offset: int
    size_bytes: int
    hint: Hint | None


def whole_end(
    directory: str,
    first_offset: int,
    max_bytes: int | None = None,
    hint: Hint | None = None,
) -> WholeEnd:
    """The end of the whole batches from an offset on, or of about the first `max_bytes` of them.

    At least one batch is taken if there is one. A write that is under way ends with a batch that is
    cut off, or whose checksum is not right yet; that and what is behind it is not taken.
    """
    offset, taken = first_offset, 0
    segments = list_segments(directory)
    if not segments:
        return WholeEnd(offset, 0, None)
    number = segment_of(segments, offset)
    offset = max(offset, segments[number].base_offset)
    while True:
        segment = segments[number]
        try:
            descriptor = os.open(segment.path, os.O_RDONLY)
        except FileNotFoundError:
            # Cleaned or deleted since: what was found so far is right, the next look finds more.
            return WholeEnd(offset, taken, None)
        is_last = number + 1 == len(segments)
        try:
            left = None if max_bytes is None else max(max_bytes - taken, 0)
            walked, is_done = _walk(segment, descriptor, offset, left, hint, is_last=is_last)
        finally:
            os.close(descriptor)
        offset, taken = max(offset, walked.offset), taken + walked.size_bytes
        hint = walked.hint
        if is_last or not is_done:
            return WholeEnd(offset, taken, hint)
        number += 1
        offset, hint = max(offset, segments[number].base_offset), None


def _walk(
    segment: Segment,
    descriptor: int,
    offset: int,
    max_bytes: int | None,
    hint: Hint | None,
    *,
    is_last: bool,
) -> tuple[WholeEnd, bool]:
    """The same within one segment, by headers; and whether the segment's end was reached."""
    status = os.fstat(descriptor)
    is_hinted = hint is not None and hint.is_of(segment, status.st_ino)
    if hint is not None and is_hinted and hint.position <= status.st_size:
        position = hint.position
    else:
        position = position_before(segment, descriptor, offset)
    taken, wanted = 0, CHUNK_BYTES
    while position < status.st_size:
        data = os.pread(descriptor, min(wanted, status.st_size - position), position)
        at_end = position + len(data) >= status.st_size
        framed = frame(Buffer(data), final=at_end and not is_last, crc=at_end and is_last)
        batches, consumed = framed.batches, framed.consumed
        new = batches.last_offset >= offset
        batches = batches.select(new)
        if len(batches) and max_bytes is not None:
            total = batches.length_bytes.cumsum()
            fits = max(int((total <= max_bytes - taken).sum()), 0 if taken else 1)
            if fits < len(batches):
                consumed, max_bytes = int(batches.position[fits]), taken
                batches = batches.select(slice(0, fits))
        if len(batches):
            offset = int(batches.last_offset[-1]) + 1
            taken += int(batches.length_bytes.sum())
        position += consumed
        if max_bytes is not None and taken >= max_bytes:
            break
        if consumed:
            wanted = CHUNK_BYTES
        elif at_end or wanted > 2 * MAX_BATCH_BYTES:
            break
        else:
            wanted *= CHUNK_GROWTH
    found = WholeEnd(offset, taken, Hint(segment.base_offset, status.st_ino, position))
    return found, position >= status.st_size


def log_end(directory: str) -> int:
    """The offset after the last whole batch of a log, by the least reading."""
    segments = list_segments(directory)
    if not segments:
        return 0
    newest = segments[-1]
    first_offset = newest.base_offset
    try:
        descriptor = os.open(newest.path, os.O_RDONLY)
    except FileNotFoundError:
        return whole_end(directory, first_offset).offset
    try:
        entry = next(index_entries(newest, descriptor), None)
    finally:
        os.close(descriptor)
    return whole_end(directory, first_offset if entry is None else entry.base_offset).offset
