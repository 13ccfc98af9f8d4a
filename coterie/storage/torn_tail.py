"""Distinguishing an incomplete write at the end of a log from damage [recovery/torn-tail].

If a process dies and the machine runs on, the page cache keeps what was written. An interrupted
write has left its beginning and nothing else. So behind the last complete batch there may be a part
of the next one, up to the end of the file. Everything else has another cause: a complete batch with
a wrong checksum, zeros, or a length that has changed so that the batch seems to continue behind the
file. The CRC does not cover the length field, so a batch can be intact although its length is
wrong; this module looks for such batches.
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
    """What may have happened to a log since it was last open [recovery/trust].

    The value says why a bad batch is damage all the same.
    """

    # The log was synced and closed. Nothing may be incomplete.
    CLEAN = "the last stop was clean, so no write was interrupted"
    # The process ended and the machine ran on. One write may be incomplete.
    PROCESS_DIED = "the machine has run on since, so only the beginning of a write can be left over"
    # Power was lost, and a segment was always synced before the next one was begun.
    POWER_LOST = "what was synced cannot be incomplete"
    # Power was lost, and nothing was synced.
    POWER_LOST_UNSYNCED = "everything below the recovery point was synced"


def refusal(
    file: File, position: int, size: int, expected_offset: int, *, gaps: bool
) -> str | None:
    """Return why the last bytes of a file are not the beginning of a write; None if they can be.

    Args:
        file: the segment's log file.
        position: where the last complete batch ends.
        size: where the file ends.
        expected_offset: the base offset of the batch that was being written.
        gaps: whether batches behind it may have greater offsets [log/segments].
    """
    assert position < size, "there are bytes behind the last batch"
    left = size - position
    if left > MAX_BATCH_BYTES:
        return f"{left} bytes are more than a batch can have"
    tail = file.read(position, left)
    return _header_refusal(tail, expected_offset) or complete_batch(
        tail, expected_offset, gaps=gaps
    )


def _header_refusal(tail: bytes, expected_offset: int) -> str | None:
    """Return what is wrong with the header, as much of it as there is."""
    left = len(tail)
    # Only a cleaning leaves out offsets, and it writes no last segment.
    if tail[: BASE_OFFSET.size] != BASE_OFFSET.pack(expected_offset)[:left]:
        return f"it does not begin with offset {expected_offset}"
    if left >= LOG_OVERHEAD_BYTES:
        length_bytes = _length_bytes(tail, 0)
        if length_bytes <= left:
            return "all of its bytes are there"
        if not HEADER_BYTES < length_bytes <= MAX_BATCH_BYTES:
            return f"a batch cannot have {length_bytes} bytes"
    if left > MAGIC_AT and tail[MAGIC_AT] != 2:
        return f"batches of magic {tail[MAGIC_AT]} are not written"
    delta_end = LAST_OFFSET_DELTA_AT + LAST_OFFSET_DELTA.size
    if left >= delta_end and _last_offset_delta(tail) < 0:
        return "its last offset is before its first"
    return None


def complete_batch(tail: bytes, expected_offset: int, *, gaps: bool) -> str | None:
    """Return where a complete batch is, although the first one claims more bytes than there are.

    Args:
        tail: the bytes behind the last good batch of a file.
        expected_offset: the base offset of the batch that should follow.
        gaps: whether batches behind it may have greater offsets.
    """
    left = len(tail)
    if left <= HEADER_BYTES:
        return None
    if _is_intact(tail, 0, left):
        return "it is complete up to the file's end, only its length is wrong"
    if gaps:
        # Any later batch can follow: its offset begins with the same four bytes.
        follows = re.escape(BASE_OFFSET.pack(expected_offset)[:4])
    else:
        # The interrupted write may hold several batches, but then the first of them is complete, so
        # the next one follows it.
        follows = re.escape(BASE_OFFSET.pack(expected_offset + _last_offset_delta(tail) + 1))
    between = MAGIC_AT - (4 if gaps else BASE_OFFSET.size)
    for match in re.finditer(b"(?=%b.{%d}\x02)" % (follows, between), tail[1:], re.DOTALL):
        start = match.start() + 1
        if left - start < HEADER_BYTES:
            break
        length_bytes = _length_bytes(tail, start)
        if HEADER_BYTES <= length_bytes <= left - start and _is_intact(
            tail, start, start + length_bytes
        ):
            return f"a complete batch follows {start} bytes behind it"
    return None


def _is_intact(tail: bytes, start: int, stop: int) -> bool:
    """Return whether the checksum of the batch between two positions is right."""
    (crc,) = CRC.unpack_from(tail, start + CRC_AT)
    return checksum.crc32c(tail[start + CRC_START : stop]) == int(crc)


def _last_offset_delta(tail: bytes) -> int:
    (delta,) = LAST_OFFSET_DELTA.unpack_from(tail, LAST_OFFSET_DELTA_AT)
    return int(delta)


def _length_bytes(tail: bytes, start: int) -> int:
    (length,) = LENGTH.unpack_from(tail, start)
    return int(length) + LOG_OVERHEAD_BYTES
