"""Ranges of log offsets, the unit of work: planned by size, read by offset.

A range is read from the segments that contain its offsets at that moment, so compaction between
planning and reading does no harm [pipeline/segment-files].
"""

import os
from collections.abc import Iterable, Iterator
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
from coterie.pipeline.codec.framing import frame
from coterie.pipeline.codec.numbers import Buffer
from coterie.pipeline.codec.piece import Source
from coterie.pipeline.segments import (
    Segment,
    index_entries,
    list_segments,
    position_before,
    segment_of,
)
from coterie.storage.batches import MAX_BATCH_BYTES

# No cleaner replaces a segment this often before a reader opens it. If lookups still fail,
# something else is wrong, and an endless search would hide it.
_MAX_LOOKUPS = 100


class Hint(NamedTuple):
    """The position of a batch, or of one before it, in one particular file.

    A new segment often gets the inode of one that a cleaner has removed, so a file is identified by
    the segment's base offset as well.
    """

    base_offset: int
    inode: int
    position: int

    def is_of(self, segment: Segment, inode: int) -> bool:
        """Return whether the hint is for this file."""
        return (self.base_offset, self.inode) == (segment.base_offset, inode)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets of one partition, from `first_offset` to before `end_offset`.

    `hint` is the position at which the range begins, if it is known.
    """

    directory: str
    log_partition: int
    first_offset: int
    end_offset: int = END_OF_LOG
    size_bytes: int = 0
    hint: Hint | None = None


class RangeStep(NamedTuple):
    """Rows from one piece of a segment, and its damage."""

    source: Source
    rows: pa.RecordBatch
    damages: list[Damage]


def read_range(
    log_range: LogRange, view: str, *, crc: bool = True, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[RangeStep]:
    """Read the rows of a range, about `chunk_bytes` of log at a time.

    Bytes at the end of the log that are no whole batch are damage of reason `torn`. A follower ends
    its range before them [pipeline/quarantine].
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
                # This file was read to its end already, so the next offset is in the next segment.
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
        # The crash left some of the segments that this one was going to replace. Their offsets are
        # read from them.
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
    """Decode one open segment from the batch with `offset` to its end or that of the range."""
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
        # The segment also ends here if it was truncated after `end` was read, or if the piece is
        # longer than two of the largest batches and still not decodable.
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
    """Divide a partition's offsets into ranges of about `target_bytes` of log each.

    Ranges end between segments, and in long segments at batches that the index points to.
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


def packed(ranges: Iterable[LogRange], target_bytes: int) -> list[tuple[LogRange, ...]]:
    """Combine ranges into lots of about `target_bytes`, the largest first."""
    lots: list[list[LogRange]] = []
    size = 0
    for each in sorted(ranges, key=lambda each: -each.size_bytes):
        if not lots or size + each.size_bytes > target_bytes:
            lots.append([])
            size = 0
        lots[-1].append(each)
        size += each.size_bytes
    return [tuple(lot) for lot in lots]


def _cuts(segment: Segment, target_bytes: int) -> list[tuple[int, int]]:
    """Return where a segment may be cut: its beginning, and batches about `target_bytes` apart."""
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
    """The end of whole batches: the next offset, the bytes before it, and the hint for it."""

    offset: int
    size_bytes: int
    hint: Hint | None


def whole_end(
    directory: str,
    first_offset: int,
    max_bytes: int | None = None,
    hint: Hint | None = None,
) -> WholeEnd:
    """Find the end of the whole batches behind an offset, or of about `max_bytes` of them.

    At least one batch is included if there is one. A write in progress ends with a batch that is
    cut off, or whose checksum is not correct yet. This batch and everything behind it are not
    included.
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
            # Cleaned or deleted since. What was found so far is right; the next call finds more.
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
    """Find the end of the whole batches within one segment.

    Returns:
        That end, and whether it is the end of the segment.
    """
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
    """Return the offset behind the last whole batch of a log, reading only the log's end."""
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
