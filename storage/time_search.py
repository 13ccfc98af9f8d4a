"""Looking for records of a segment by their timestamps.

The time index is a hint like the other one (`index.py`), but a wrong entry of it leads to no wrong
place in the log: it makes a search begin too late, and that would not be seen. So an entry that was
read from a file is checked against the batches around it before a search begins there.

What is found wrong is raised as `IndexDamaged` or `BadBatch`; the segment makes its indexes anew
and asks again.
"""

from typing import TYPE_CHECKING

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import BatchHeader, read_header, record_timestamps
from coterie.storage.index import IndexDamaged

if TYPE_CHECKING:
    from coterie.storage.segment import Segment


def first_at_or_after(
    segment: "Segment", timestamp_ms: int, min_offset: int
) -> tuple[int, int] | None:
    """The first record from `min_offset` on that is not older: (its timestamp, its offset)."""
    entry = segment.indexes.times.floor(timestamp_ms)
    if entry is not None and not segment.trusted:
        _check_entry(segment, *entry)
    offset = min_offset if entry is None else max(min_offset, segment.base_offset + entry[1])
    place = segment.locate(offset)
    if place is None:
        return None
    for position, length_bytes, _, _, max_timestamp_ms in segment.steps_from(place[0]):
        if max_timestamp_ms < timestamp_ms:
            continue
        segment.verify(position, position + length_bytes, None)
        batch = segment.bytes_at(position, length_bytes)
        for found in _timestamps(batch, read_header(batch), min_offset):
            if found[0] >= timestamp_ms:
                return found
    return None


def greatest_timestamp_from(segment: "Segment", min_offset: int) -> int:
    """The greatest timestamp of the records from `min_offset` on, -1 if none; walks over all."""
    place = segment.locate(min_offset)
    if place is None:
        return -1
    greatest_ms = -1
    for position, length_bytes, base_offset, _, max_timestamp_ms in segment.steps_from(place[0]):
        if base_offset >= min_offset:
            greatest_ms = max(greatest_ms, max_timestamp_ms)
        else:
            batch = segment.bytes_at(position, length_bytes)
            for timestamp_ms, _ in _timestamps(batch, read_header(batch), min_offset):
                greatest_ms = max(greatest_ms, timestamp_ms)
    return greatest_ms


def check_last_entry(segment: "Segment") -> None:
    """Check that a time index from a file ends with the segment's greatest timestamp.

    Kafka and we finish it with that entry. If it was cut, times would be looked for in vain. What
    is walked is the stretch behind the batch with the greatest timestamp, the last one as a rule.

    Raises:
        IndexDamaged: it ends with something else.
    """
    timestamp_ms, offset = segment.indexes.max_timestamp
    place = segment.locate(offset)
    if place is None:
        raise IndexDamaged(f"{segment.path} does not have the last offset of its time index")
    greatest_ms = -1
    for _, _, _, _, max_timestamp_ms in segment.steps_from(place[0]):
        if greatest_ms == -1 and max_timestamp_ms != timestamp_ms:
            raise IndexDamaged(f"{segment.path}: offset {offset} has another timestamp")
        greatest_ms = max(greatest_ms, max_timestamp_ms)
    if greatest_ms != timestamp_ms:
        raise IndexDamaged(f"{segment.path} has a greater timestamp than its time index")


def _check_entry(segment: "Segment", timestamp_ms: int, relative_offset: int) -> None:
    """Check an entry of a time index from a file against the batches since the one before it.

    None of them may be as late, and the one that the entry means has to be: else a search that
    begins there would step over what it looks for.
    """
    offset = segment.base_offset + relative_offset
    before = segment.indexes.times.floor(timestamp_ms - 1)
    start = segment.base_offset + (0 if before is None else before[1])
    place = segment.locate(start) if start <= offset < segment.next_offset else None
    if place is not None:
        for _, _, _, last_offset, max_timestamp_ms in segment.steps_from(place[0]):
            if max_timestamp_ms >= timestamp_ms or last_offset >= offset:
                if max_timestamp_ms == timestamp_ms and last_offset >= offset:
                    return
                break
    raise IndexDamaged(f"{segment.path}: offset {offset} has another timestamp")


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
