"""Record batches from outside: header, framing, checksum, what a broker rewrites (spec 14.1,
KIP-98).

A batch of magic 2 is a header of 61 bytes and its records, which may be compressed as one block.
The CRC covers everything from the attributes on, so that a broker can set base offset and leader
epoch without recomputing it, and the reason why those two, the magic and the length must be checked
by other means (`storage/segment.py` does). Magic 0 and 1, the message sets written before Kafka
0.11, share the first 17 bytes' meaning as far as needed: offset, length, magic. Their headers are
told in the same shape; `record_legacy.py` reads what is in them.

Nothing here decompresses and nothing allocates in proportion to a number that the bytes claim.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
HAS_DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

# Base offset and length: what comes before the bytes that the length counts.
PREFIX_BYTES = 12
# Where the bytes covered by the CRC of magic 2 begin.
CRC_START = 21
HEADER_BYTES = 61
# The bytes that tell offset, length and magic in every format.
COMMON_BYTES = 17
# Offset, length, CRC, magic, attributes, [timestamp], two empty lengths.
LEGACY_MIN_BYTES = (26, 34)

HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY = struct.Struct(">qiIbb")
_INT64 = struct.Struct(">q")
_OFFSET_AND_LENGTH = struct.Struct(">qi")


class Record(NamedTuple):
    """One record with its absolute offset. A null value is a tombstone; header keys may repeat."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchHeader(NamedTuple):
    """The header of one batch; `length_bytes` counts the whole batch, its 12-byte prefix included.

    For magic 0 and 1 leader epoch, producer fields and base sequence are -1, the record count is 1
    (-1 when compressed), and `base_offset` is the offset in the entry, which for a compressed one
    is that of its last record.
    """

    base_offset: int
    length_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record it was written with; compaction may have removed that."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec's number: a `Compression`, or 5 to 7, which nobody has defined."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction, or the marker ends one."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker and not data."""
        return self.attributes & CONTROL != 0

    @property
    def log_append_time(self) -> bool:
        """Whether all records carry the broker's time, which is then `max_timestamp_ms`."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; it wraps to 0 after 2**31 - 1 (KIP-98)."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class InvalidRecord(MalformedFrame):
    """An undamaged batch that breaks a rule for producers: INVALID_RECORD, not CORRUPT_MESSAGE."""


def read_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`. The batch's records need not be in the buffer.

    Raises:
        MalformedFrame: the header is cut off, the magic unknown, or the length too small for any
            batch.
    """
    if position + COMMON_BYTES > len(buffer):
        raise MalformedFrame(f"a batch header at byte {position} is cut off at byte {len(buffer)}")
    magic = buffer[position + 16]
    if magic == 2:
        if position + HEADER_BYTES > len(buffer):
            raise MalformedFrame(
                f"a batch header at byte {position} is cut off at byte {len(buffer)}"
            )
        fields = HEADER.unpack_from(buffer, position)
        length = fields[1]
        if length < HEADER_BYTES - PREFIX_BYTES:
            raise MalformedFrame(
                f"the batch at byte {position} claims {length} bytes, less than a header"
            )
        # The class's own constructor takes each field as an argument, at twice the cost.
        return tuple.__new__(BatchHeader, (fields[0], length + PREFIX_BYTES, *fields[2:]))
    if magic > 2:
        raise MalformedFrame(
            f"the batch at byte {position} has magic {magic}; 0, 1 and 2 are known"
        )
    return _read_legacy_header(buffer, position, magic)


def _read_legacy_header(buffer: bytes, position: int, magic: int) -> BatchHeader:
    if position + LEGACY_MIN_BYTES[magic] > len(buffer):
        raise MalformedFrame(f"a message at byte {position} is cut off at byte {len(buffer)}")
    offset, length, crc, _, attributes = _LEGACY.unpack_from(buffer, position)
    if length + PREFIX_BYTES < LEGACY_MIN_BYTES[magic]:
        raise MalformedFrame(
            f"the message at byte {position} claims {length} bytes, less than any has"
        )
    timestamp_ms = NO_TIMESTAMP
    if magic == 1:
        (timestamp_ms,) = _INT64.unpack_from(buffer, position + 18)
    # The bits above log append time mean nothing before magic 2.
    attributes &= COMPRESSION_MASK | (LOG_APPEND_TIME if magic == 1 else 0)
    count = -1 if attributes & COMPRESSION_MASK else 1
    return BatchHeader(
        offset, length + PREFIX_BYTES, -1, magic, crc, attributes, 0, timestamp_ms, timestamp_ms,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip


def iterate_batches(buffer: bytes, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch as (position, header) up to the end of the buffer, checksums unseen.

    Raises:
        MalformedFrame: a header is impossible, or the last batch is cut off.
    """
    end = len(buffer)
    while position < end:
        header = read_header(buffer, position)
        if position + header.length_bytes > end:
            raise MalformedFrame(
                f"the batch at byte {position} claims {header.length_bytes} bytes"
                f" where {end - position} are left"
            )
        yield position, header
        position += header.length_bytes


def check_crc(buffer: bytes, header: BatchHeader, position: int = 0) -> bool:
    """Whether the header's checksum is that of the batch at `position`, which must be whole."""
    view = memoryview(buffer)
    end = position + header.length_bytes
    if header.magic == 2:
        return checksum.crc32c(view[position + CRC_START : end]) == header.crc
    return zlib.crc32(view[position + 16 : end]) == header.crc


def stamp(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """One batch of magic 2 with another base offset and leader epoch; the CRC covers neither."""
    assert batch[16] == 2, "only batches of magic 2 are appended"
    return b"".join(
        (_INT64.pack(base_offset), batch[8:12], leader_epoch.to_bytes(4, signed=True), batch[16:])
    )


def stamp_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """One batch of magic 2 as a topic with message.timestamp.type=LogAppendTime stores it.

    All its records get the broker's time through the attribute and the maximum; the records
    themselves stay as they are, compressed or not. The attributes are under the CRC, so it is
    computed anew.
    """
    header = read_header(batch)
    assert header.magic == 2, "only batches of magic 2 are appended"
    out = bytearray(batch)
    struct.pack_into(">h", out, 21, header.attributes | LOG_APPEND_TIME)
    _INT64.pack_into(out, 35, timestamp_ms)
    struct.pack_into(">I", out, 17, checksum.crc32c(memoryview(out)[CRC_START:]))
    return bytes(out)


def validate_batches(records: bytes) -> list[BatchHeader]:
    """What a broker checks of produced batches before it stores them; their headers, in order.

    Framing, magic 2, CRC, and that the record count agrees with the offsets the batch takes up.
    Compressed records are not opened (issue: passed through). The rules are those of Kafka's
    LogValidator for batches from clients.

    Raises:
        InvalidRecord: an undamaged batch with a count that is not its offsets', a marker (only
            brokers write those), or a producer id without a sequence.
        MalformedFrame: anything else; the produce handler answers CORRUPT_MESSAGE.
    """
    headers = []
    for position, header in iterate_batches(records):
        if header.magic != 2:
            raise MalformedFrame(
                f"the batch at byte {position} has magic {header.magic}; producers write 2"
            )
        if not check_crc(records, header, position):
            raise MalformedFrame(
                f"the CRC of the batch at byte {position} is not {header.crc:#010x}"
            )
        if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
            raise InvalidRecord(
                f"the batch at byte {position} has {header.record_count} records"
                f" for {header.last_offset_delta + 1} offsets"
            )
        if header.compression > Compression.ZSTD:
            raise MalformedFrame(
                f"the batch at byte {position} has unknown compression {header.compression}"
            )
        if header.is_control:
            raise InvalidRecord(
                f"the batch at byte {position} is a control batch; only brokers write those"
            )
        if header.producer_id >= 0 and header.base_sequence < 0:
            raise InvalidRecord(f"the batch at byte {position} has a producer id and no sequence")
        headers.append(header)
    return headers
