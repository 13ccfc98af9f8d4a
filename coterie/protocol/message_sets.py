"""Message sets of magic 0 and 1 on the wire: what clients before 0.11 send and receive.

The log holds record batches only. A produced message set becomes one batch, and fetched batches
become messages [record-batch/legacy-messages]. Nothing here is used by clients of 0.11 and later.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence

from coterie.protocol.compression import Compression, compress, decompress
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import (
    BatchHeader,
    Record,
    check_crc,
    iterate_batches,
    read_header,
)
from coterie.protocol.record_batch_layout import (
    BASE_OFFSET,
    LEGACY_KEY_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP,
)
from coterie.protocol.record_legacy import lz4_with_checksum, sized_bytes
from coterie.protocol.record_reader import decode_records
from coterie.protocol.record_writer import encode_legacy, encode_records

_LENGTH = struct.Struct(">i")
_NO_KEY = b"\xff\xff\xff\xff"


class DamagedMessage(MalformedFrame):
    """A message that does not match its CRC."""


class InvalidMessage(MalformedFrame):
    """A message that is intact, and that no broker stores."""


class NotConvertible(MalformedFrame):
    """A batch whose codec no message of an older magic can have."""


# -- from messages to a batch ----------------------------------------------------------------------


def batch_of_messages(messages: bytes) -> bytes:
    """Return the messages of a set as one batch of the same codec, with offsets from 0 on.

    Args:
        messages: whole messages of one magic: several uncompressed ones, or one compressed one.
            Their CRCs have been checked.

    Raises:
        DamagedMessage, InvalidMessage: see these classes.
        MalformedFrame: a message has impossible lengths, or cannot be decompressed.
    """
    found = [*iterate_batches(messages)]
    first = found[0][1]
    if any(header.magic != first.magic for _, header in found):
        raise InvalidMessage("a message set mixes messages of two magics")
    if any(header.compression for _, header in found):
        if len(found) > 1:
            raise InvalidMessage("a message set holds a compressed message and another one")
        records = _unwrapped(messages, first)
    else:
        records = [_record(messages, header, position) for position, header in found]
    if any(record.timestamp_ms < NO_TIMESTAMP for record in records):
        raise MalformedFrame("a message has a negative timestamp")
    numbered = [record._replace(offset=offset) for offset, record in enumerate(records)]
    return encode_records(numbered, compression=Compression(first.compression))


def _unwrapped(message: bytes, header: BatchHeader) -> list[Record]:
    """Return the messages in a compressed message; an incomplete one at its end does not count."""
    if header.compression == Compression.ZSTD:
        raise InvalidMessage("zstd exists since magic 2")
    value = _record(message, header, 0).value
    if value is None:
        raise InvalidMessage("a compressed message has no value")
    if header.magic == 0 and header.compression == Compression.LZ4:
        value = lz4_with_checksum(value)
    inner = decompress(header.compression, value)
    records: list[Record] = []
    position = 0
    while True:
        size = _whole_message_bytes(inner, position)
        if size is None:
            break
        entry = read_header(inner, position)
        if entry.magic != header.magic:
            raise InvalidMessage("a compressed message holds a message of another magic")
        if entry.compression:
            raise InvalidMessage("a compressed message holds another one")
        if not check_crc(inner, entry, position):
            raise DamagedMessage(f"the CRC of the message at byte {position} is wrong")
        records.append(_record(inner, entry, position))
        position += size
    if not records:
        raise InvalidMessage("a compressed message holds no message")
    return records


def _whole_message_bytes(data: bytes, position: int) -> int | None:
    """Return the size of the message at `position`; None if the bytes end before it does."""
    left = len(data) - position
    if left < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(data, position + BASE_OFFSET.size)
    if length < 0:
        raise DamagedMessage(f"the message at byte {position} claims {length} bytes")
    size: int = LOG_OVERHEAD_BYTES + length
    return size if size <= left else None


def _record(data: bytes, header: BatchHeader, position: int) -> Record:
    """Return key and value of a message. As in Kafka, bytes after the value do not count."""
    end = position + header.length_bytes
    key, at = sized_bytes(data, position + LEGACY_KEY_AT[header.magic], end)
    value, _ = sized_bytes(data, at, end)
    return Record(header.base_offset, header.base_timestamp_ms, key, value)


# -- from batches to messages ----------------------------------------------------------------------


def messages_of_batches(batches: bytes, magic: int, first_offset: int) -> Iterator[bytes]:
    """Yield each batch as messages of magic 0 or 1, with their offsets.

    Control batches are left out, and so are headers and, in magic 0, timestamps. Messages before
    `first_offset` are left out too, unless they are in a compressed message.

    Raises:
        NotConvertible: the next batch is compressed with zstd.
        MalformedFrame: a batch is damaged.
    """
    for position, header in iterate_batches(batches):
        if header.magic <= magic:
            yield batches[position : position + header.length_bytes]
        elif not header.is_control:
            yield _converted(batches, header, position, magic, first_offset)


def _converted(
    batches: bytes, header: BatchHeader, position: int, magic: int, first_offset: int
) -> bytes:
    codec = Compression(header.compression)
    if codec is Compression.ZSTD:
        raise NotConvertible(f"the batch at offset {header.base_offset} is compressed with zstd")
    records = [record._replace(headers=()) for record in decode_records(batches, header, position)]
    broker_time = header.log_append_time
    if codec is Compression.NONE:
        wanted = [record for record in records if record.offset >= first_offset]
        return encode_messages(wanted, magic, log_append_time=broker_time)
    if not records:
        return b""
    return encode_wrapper(records, magic, codec, log_append_time=broker_time)


def encode_messages(
    records: Sequence[Record], magic: int, *, log_append_time: bool = False
) -> bytes:
    """Return records as uncompressed messages."""
    # Magic 0 has no attribute for the kind of a timestamp.
    has_kind = log_append_time and magic > 0
    return b"".join(encode_legacy(each, magic, log_append_time=has_kind) for each in records)


def encode_wrapper(
    records: Sequence[Record], magic: int, codec: Compression, *, log_append_time: bool = False
) -> bytes:
    """Return records as one compressed message [record-batch/legacy-messages].

    Args:
        records: at least one, without headers.
        magic: 0 or 1.
        codec: its codec, neither NONE nor zstd.
        log_append_time: whether the timestamps are those of the broker, and so all the same.
    """
    base_offset, last_offset = records[0].offset, records[-1].offset
    if magic:
        records = [each._replace(offset=each.offset - base_offset) for each in records]
    value = compress(codec, encode_messages(records, magic, log_append_time=log_append_time))
    if codec is Compression.LZ4 and magic == 0:
        value = lz4_with_checksum(value, covers_magic=True)
    attributes = int(codec) | (LOG_APPEND_TIME if log_append_time and magic else 0)
    parts = [bytes((magic, attributes))]
    if magic:
        greatest_ms = max((each.timestamp_ms for each in records), default=NO_TIMESTAMP)
        parts.append(TIMESTAMP.pack(greatest_ms))
    parts += (_NO_KEY, _LENGTH.pack(len(value)), value)
    body = b"".join(parts)
    crc = zlib.crc32(body).to_bytes(4)
    return BASE_OFFSET.pack(last_offset) + _LENGTH.pack(len(crc) + len(body)) + crc + body
