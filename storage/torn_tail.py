"""Telling a torn tail from damage: can these last bytes be the beginning of one interrupted write?

When a process dies and the machine goes on, the page cache keeps what was written. A write that was
under way has left a beginning of itself and nothing else, so behind the last whole batch there may
stand a part of the next one, up to the file's end. Everything else was put there by something else
than a writer: a whole batch with a wrong checksum, zeros, a length that has changed so that the
batch seems to go on behind the file. The length is in front of what the checksum covers, hence the
search here for batches that are whole in spite of theirs.
"""

import re
import struct
from enum import Enum

from coterie.protocol import checksum
from coterie.storage.filesystem import File
from coterie.storage.scan import MAX_BATCH_BYTES

_HEADER_BYTES = 61
_PREFIX_BYTES = 12
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_START = 21
_LAST_OFFSET_DELTA_AT = 23
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")


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
    expected = _INT64.pack(expected_offset)
    if not gaps and tail[:8] != expected[:left]:
        return f"offset {expected_offset} does not begin it"
    if gaps and left >= 8 and _INT64.unpack_from(tail)[0] < expected_offset:
        return f"its offset is before {expected_offset}"
    if left >= _PREFIX_BYTES:
        length = _INT32.unpack_from(tail, 8)[0] + _PREFIX_BYTES
        if length <= left:
            return "all bytes of it are there"
        if not _HEADER_BYTES < length <= MAX_BATCH_BYTES:
            return f"a batch has no {length} bytes"
    if left > _MAGIC_AT and tail[_MAGIC_AT] != 2:
        return f"batches of magic {tail[_MAGIC_AT]} are not written"
    if left >= _LAST_OFFSET_DELTA_AT + 4 and _last_offset_delta(tail, 0) < 0:
        return "its last offset is before its first"
    return None


def _whole_batch(tail: bytes, expected_offset: int, *, gaps: bool) -> str | None:
    """Whether a batch that claims more bytes than there are is whole all the same."""
    left = len(tail)
    if left <= _HEADER_BYTES:
        return None
    if _is_whole(tail, 0, left):
        return "it is whole up to the file's end, only its length is wrong"
    if gaps:
        # Any batch that can follow: with an offset that begins with the same four bytes.
        follows = re.escape(_INT64.pack(expected_offset)[:4])
    else:
        # An interrupted write may hold several batches, but then the first of them is whole.
        follows = re.escape(_INT64.pack(expected_offset + _last_offset_delta(tail, 0) + 1))
    after = _MAGIC_AT - (4 if gaps else 8)
    for match in re.finditer(b"(?=%b.{%d}\x02)" % (follows, after), tail[1:], re.DOTALL):
        start = match.start() + 1
        if left - start < _HEADER_BYTES:
            break
        length = _INT32.unpack_from(tail, start + 8)[0] + _PREFIX_BYTES
        if _HEADER_BYTES <= length <= left - start and _is_whole(tail, start, start + length):
            return f"a whole batch follows {start} bytes behind it"
    return None


def _is_whole(tail: bytes, start: int, stop: int) -> bool:
    crc: int = _UINT32.unpack_from(tail, start + _CRC_AT)[0]
    return checksum.crc32c(memoryview(tail)[start + _CRC_START : stop]) == crc


def _last_offset_delta(tail: bytes, start: int) -> int:
    delta: int = _INT32.unpack_from(tail, start + _LAST_OFFSET_DELTA_AT)[0]
    return delta
