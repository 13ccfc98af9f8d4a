"""Finding the records of a segment by their timestamps [log/time-lookup].

A wrong entry of the time index leads to no wrong place in the log: a search would only begin too
late, which would not be noticed. So an entry that was read from a file is compared with the batches
around it before a search begins there [log/offset-index].

Errors are raised as `IndexDamaged` or `BadBatch`, as by the methods of `SegmentReader`.
"""

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import BatchHeader, read_header, record_timestamps
from coterie.storage.index import IndexDamaged
from coterie.storage.segment_reader import SegmentReader


def first_at_or_after(
    segment: SegmentReader, timestamp_ms: int, min_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record from `min_offset` on that is not older."""
    entry = segment.indexes.times.floor(timestamp_ms)
    offset = min_offset
    if entry is not None:
        entry_ms, relative_offset = entry
        if not segment.trusted:
            _check_entry(segment, entry_ms, relative_offset)
        offset = max(min_offset, segment.base_offset + relative_offset)
    place = segment.locate(offset)
    if place is None:
        return None
    start, _ = place
    for position, length_bytes, _, _, max_timestamp_ms in segment.steps_from(start):
        if max_timestamp_ms < timestamp_ms:
            continue
        segment.check(position, position + length_bytes, None)
        batch = segment.bytes_at(position, length_bytes)
        for found_ms, found_offset in _timestamps(batch, read_header(batch), min_offset):
            if found_ms >= timestamp_ms:
                return found_ms, found_offset
    return None


def greatest_timestamp_from(segment: SegmentReader, min_offset: int) -> int:
    """Return the greatest timestamp of the records from `min_offset` on, -1 if there is none.

    All batches from there on are visited.
    """
    place = segment.locate(min_offset)
    if place is None:
        return -1
    start, _ = place
    greatest_ms = -1
    for position, length_bytes, base_offset, _, max_timestamp_ms in segment.steps_from(start):
        if base_offset >= min_offset:
            greatest_ms = max(greatest_ms, max_timestamp_ms)
        else:
            batch = segment.bytes_at(position, length_bytes)
            for timestamp_ms, _ in _timestamps(batch, read_header(batch), min_offset):
                greatest_ms = max(greatest_ms, timestamp_ms)
    return greatest_ms


def check_last_entry(segment: SegmentReader) -> None:
    """Check that a time index from a file ends with the segment's greatest timestamp.

    A closed segment has that entry [log/offset-index]. If it was cut off, a search for later times
    would find nothing. The batches behind the one with the greatest timestamp are visited, which is
    the last batch as a rule.

    Raises:
        IndexDamaged: the last entry is another one.
    """
    timestamp_ms, offset = segment.indexes.max_timestamp
    place = segment.locate(offset)
    if place is None:
        raise IndexDamaged(f"{segment.path} does not have the last offset of its time index")
    start, _ = place
    greatest_ms = -1
    for _, _, _, _, max_timestamp_ms in segment.steps_from(start):
        if greatest_ms == -1 and max_timestamp_ms != timestamp_ms:
            raise IndexDamaged(f"{segment.path}: offset {offset} has another timestamp")
        greatest_ms = max(greatest_ms, max_timestamp_ms)
    if greatest_ms != timestamp_ms:
        raise IndexDamaged(f"{segment.path} has a greater timestamp than its time index")


def _check_entry(segment: SegmentReader, timestamp_ms: int, relative_offset: int) -> None:
    """Check an entry of a time index against the batches since the entry before it.

    The batch of the entry must have its timestamp, and no batch before it may be as late: otherwise
    a search that begins there would miss what it looks for.
    """
    offset = segment.base_offset + relative_offset
    before = segment.indexes.times.floor(timestamp_ms - 1)
    start_offset = segment.base_offset
    if before is not None:
        _, relative_start = before
        start_offset += relative_start
    place = segment.locate(start_offset) if start_offset <= offset < segment.next_offset else None
    if place is not None:
        start, _ = place
        for _, _, _, last_offset, max_timestamp_ms in segment.steps_from(start):
            if max_timestamp_ms >= timestamp_ms or last_offset >= offset:
                if max_timestamp_ms == timestamp_ms and last_offset >= offset:
                    return
                break
    raise IndexDamaged(f"{segment.path}: offset {offset} has another timestamp")


def _timestamps(batch: bytes, header: BatchHeader, min_offset: int) -> list[tuple[int, int]]:
    """Return timestamp and offset of a batch's records from `min_offset` on.

    A batch with a right checksum whose records cannot be decoded counts as one record with the
    greatest timestamp at the first offset, so that a reader that starts there misses nothing.
    """
    try:
        found = list(record_timestamps(batch, header))
    except MalformedFrame:
        return [(header.max_timestamp_ms, max(header.base_offset, min_offset))]
    return [(timestamp_ms, offset) for timestamp_ms, offset in found if offset >= min_offset]
