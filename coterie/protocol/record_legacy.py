"""Reading messages of magic 0 and 1, which Kafka wrote before 0.11.

They are read so that old data directories can be used, compacted and moved
[record-batch/legacy-messages]. Only compaction writes them (`record_writer.encode_legacy`).
"""

import struct

from coterie.protocol.compression import Compression, decompress
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import BatchHeader, Record, check_crc, iterate_batches
from coterie.protocol.record_batch_layout import LEGACY_KEY_AT

_INT32 = struct.Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HAS_CONTENT_SIZE = 0x08
# An LZ4 frame descriptor is flags, block size and perhaps the content size; then its checksum.
_LZ4_CHECKSUM_AT = 6
_LZ4_CHECKSUM_AT_WITH_SIZE = 14
# The constants of xxHash32.
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    2654435761, 2246822519, 3266489917, 668265263, 374761393,
)  # fmt: skip


def decode_legacy(buffer: bytes, header: BatchHeader, position: int = 0) -> list[Record]:
    """Return the record of the message at `position`, or all records of a compressed message.

    Raises:
        MalformedFrame: the message is incomplete or damaged, which includes the CRCs of inner
            messages, or it is compressed twice [record-batch/legacy-messages].
    """
    if position + header.length_bytes > len(buffer):
        raise MalformedFrame(f"a message of {header.length_bytes} bytes at {position} is cut off")
    key, value = _key_and_value(buffer, header, position)
    if not header.compression:
        return [Record(header.base_offset, header.base_timestamp_ms, key, value)]
    if value is None:
        raise MalformedFrame(f"a compressed message without a value at offset {header.base_offset}")
    if header.magic == 0 and header.compression == Compression.LZ4:
        value = lz4_with_checksum(value)
    inner = decompress(header.compression, value)
    records = []
    for start, entry in iterate_batches(inner):
        if entry.compression or entry.magic != header.magic:
            raise MalformedFrame(f"a wrapped message of another kind at offset {entry.base_offset}")
        if not check_crc(inner, entry, start):
            raise MalformedFrame(f"the CRC of the wrapped message at byte {start} is wrong")
        timestamp_ms = (
            header.base_timestamp_ms if header.log_append_time else entry.base_timestamp_ms
        )
        inner_key, inner_value = _key_and_value(inner, entry, start)
        records.append(Record(entry.base_offset, timestamp_ms, inner_key, inner_value))
    if not records:
        raise MalformedFrame(f"a compressed message that wraps nothing at {header.base_offset}")
    if header.magic == 0:
        return records
    shift = header.base_offset - records[-1].offset
    return [record._replace(offset=record.offset + shift) for record in records]


def _key_and_value(
    buffer: bytes, header: BatchHeader, position: int
) -> tuple[bytes | None, bytes | None]:
    end = position + header.length_bytes
    key, position = sized_bytes(buffer, position + LEGACY_KEY_AT[header.magic], end)
    value, position = sized_bytes(buffer, position, end)
    if position != end:
        raise MalformedFrame(f"a message has {end - position} bytes after its value")
    return key, value


def sized_bytes(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Return the key or value at `position`, and the position after it.

    As in Kafka, every negative length is that of a null.

    Raises:
        MalformedFrame: it does not end before `end`.
    """
    if position + _INT32.size > end:
        raise MalformedFrame(f"a message ends within a length at byte {position}")
    (size,) = _INT32.unpack_from(buffer, position)
    position += _INT32.size
    if size < 0:
        return None, position
    if position + size > end:
        raise MalformedFrame(f"{size} bytes at byte {position} of a message that ends at {end}")
    return buffer[position : position + size], position + size


def lz4_with_checksum(frame: bytes, *, covers_magic: bool = False) -> bytes:
    """Return the frame with the checksum that its format demands.

    With `covers_magic` it is the wrong one of magic 0 [record-batch/legacy-messages].
    """
    if frame[:4] != _LZ4_MAGIC or len(frame) <= _LZ4_CHECKSUM_AT_WITH_SIZE:
        raise MalformedFrame("an LZ4 message has no LZ4 frame")
    has_size = frame[4] & _LZ4_HAS_CONTENT_SIZE
    end = _LZ4_CHECKSUM_AT_WITH_SIZE if has_size else _LZ4_CHECKSUM_AT
    covered = frame[0 if covers_magic else 4 : end]
    return frame[:end] + bytes(((_short_xxh32(covered) >> 8) & 0xFF,)) + frame[end + 1 :]


def _short_xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes, the checksum of an LZ4 descriptor."""
    assert len(data) < 16, "the long form of the hash is not needed here"
    value = (_PRIME_5 + len(data)) & _MASK
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        value = (value + word * _PRIME_3) & _MASK
        value = (_rotated(value, 17) * _PRIME_4) & _MASK
    for byte in data[whole:]:
        value = (value + byte * _PRIME_5) & _MASK
        value = (_rotated(value, 11) * _PRIME_1) & _MASK
    value = ((value ^ value >> 15) * _PRIME_2) & _MASK
    value = ((value ^ value >> 13) * _PRIME_3) & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
