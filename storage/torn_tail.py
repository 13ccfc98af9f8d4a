"""Telling a torn tail from damage: can these last bytes be the beginning of one interrupted write?

When a process dies and the machine goes on, the page cache keeps what was written. A write that was
under way has left a beginning of itself and nothing else, so behind the last whole batch there may
stand a part of the next one, up to the file's end. Everything else was put there by something else
than a writer: a whole batch with a wrong checksum, zeros, a length that has changed so that the
batch seems to go on behind the file. The length is in front of what the checksum covers, hence the
search here for batches that are whole in spite of theirs.
"""

import re
from enum import Enum

from coterie.protocol import checksum
from coterie.protocol.record_batch_layout import (
    BASE_OFFSET,
    CRC,
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_AT,
    LENGTH,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
)
from coterie.storage.batches import MAX_BATCH_BYTES
from coterie.storage.filesystem import File


class TailTrust(Enum):
    """What may have happened to a log since it was last open, and so what may be torn."""

    # It was synced and closed in order: nothing.
    CLEAN = "closed in order, so no write was interrupted"
    # The process ended and the machine went on: the end of the last segment, as above.
    PROCESS_DIED = "the machine has run on since, so only a write's beginning can be left over"
    # Power was lost, and a segment was always synced before the next one was begun: the last one,
    # from anywhere above the recovery point.
    POWER_LOST = "what was synced can't be torn"
    # Power was lost and nobody had synced: every segment above the recovery point.
    POWER_LOST_UNSYNCED = "what lies below the recovery point was synced"


def refusal(
    file: File, position: int, size: int, expected_offset: int, *, gaps: bool
) -> str | None:
    """Why the bytes from `position` on are no beginning of a write; None when they can be one.

    Args:
        file: the segment's log file.
        position: where the last whole batch ends.
        size: where the file ends.
        expected_offset: the base offset of the batch that was being written.
        gaps: whether that batch may have a greater one, as in a compacted log.
    """
    left = size - position
    if left > MAX_BATCH_BYTES:
        return f"{left} bytes are more than a batch has"
    tail = file.read(position, left)
    return _header_refusal(tail, expected_offset, gaps=gaps) or _whole_batch(
        tail, expected_offset, gaps=gaps
    )


def _header_refusal(tail: bytes, expected_offset: int, *, gaps: bool) -> str | None:
    """What is wrong with as much of the header as there is."""
    left = len(tail)
    expected = BASE_OFFSET.pack(expected_offset)
    if not gaps and tail[:8] != expected[:left]:
        return f"offset {expected_offset} does not begin it"
    if gaps and left >= 8 and BASE_OFFSET.unpack_from(tail)[0] < expected_offset:
        return f"its offset is before {expected_offset}"
    if left >= LOG_OVERHEAD_BYTES:
        length = _length_bytes(tail, 0)
        if length <= left:
            return "all bytes of it are there"
        if not HEADER_BYTES < length <= MAX_BATCH_BYTES:
            return f"a batch has no {length} bytes"
    if left > MAGIC_AT and tail[MAGIC_AT] != 2:
        return f"batches of magic {tail[MAGIC_AT]} are not written"
    if left >= LAST_OFFSET_DELTA_AT + 4 and _last_offset_delta(tail, 0) < 0:
        return "its last offset is before its first"
    return None


def _whole_batch(tail: bytes, expected_offset: int, *, gaps: bool) -> str | None:
    """Whether a batch that claims more bytes than there are is whole all the same."""
    left = len(tail)
    if left <= HEADER_BYTES:
        return None
    if _is_whole(tail, 0, left):
        return "it is whole up to the file's end, only its length is wrong"
    if gaps:
        # Any batch that can follow: with an offset that begins with the same four bytes.
        follows = re.escape(BASE_OFFSET.pack(expected_offset)[:4])
    else:
        # An interrupted write may hold several batches, but then the first of them is whole.
        follows = re.escape(BASE_OFFSET.pack(expected_offset + _last_offset_delta(tail, 0) + 1))
    after = MAGIC_AT - (4 if gaps else 8)
    for match in re.finditer(b"(?=%b.{%d}\x02)" % (follows, after), tail[1:], re.DOTALL):
        start = match.start() + 1
        if left - start < HEADER_BYTES:
            break
        length = _length_bytes(tail, start)
        if HEADER_BYTES <= length <= left - start and _is_whole(tail, start, start + length):
            return f"a whole batch follows {start} bytes behind it"
    return None


def _is_whole(tail: bytes, start: int, stop: int) -> bool:
    crc: int = CRC.unpack_from(tail, start + CRC_AT)[0]
    return checksum.crc32c(memoryview(tail)[start + CRC_START : stop]) == crc


def _last_offset_delta(tail: bytes, start: int) -> int:
    delta: int = LAST_OFFSET_DELTA.unpack_from(tail, start + LAST_OFFSET_DELTA_AT)[0]
    return delta


def _length_bytes(tail: bytes, start: int) -> int:
    (length,) = LENGTH.unpack_from(tail, start)
    return int(length) + LOG_OVERHEAD_BYTES
