"""Writing record batches of magic 2: the coordinator's own, general ones, and transaction markers.

`encode_batch` is on the path of every commit: its varints come from a table, its header from two
structs, its bytes from one join. The rest is for tools, tests and compaction, which rewrites what
is left of a batch.
"""

import struct
import zlib
from collections.abc import Sequence

from coterie.protocol import checksum
from coterie.protocol.compression import compress
from coterie.protocol.raw_records import RawRecord
from coterie.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    HAS_DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Compression,
    Record,
)
from coterie.protocol.varints import TABLE_SIZE, VARINTS, varint

# Base offset, length, leader epoch, magic, CRC: what the CRC does not cover.
_FRONT = struct.Struct(">qiibI").pack
# Attributes, last offset delta, base and maximum timestamp, producer id and epoch, base sequence,
# count.
_REST = struct.Struct(">hiqqqhii").pack
# What the length field counts and `_REST` and the records do not hold: epoch, magic, CRC.
_FRONT_COUNTED_BYTES = 9

# Attributes 0, timestamp delta 0, offset delta: the beginning of a record of `encode_batch`, by
# offset delta.
_RECORD_STARTS = tuple(b"\0\0" + VARINTS[delta] for delta in range(256))

_NULL_VALUE_NO_HEADERS = b"\x01\0"
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_INT64_RANGE = 1 << 64


def encode_batch(
    pairs: Sequence[tuple[bytes, bytes | None]],
    base_offset: int,
    timestamp_ms: int,
    *,
    leader_epoch: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = 0,
) -> bytes:
    """Keys and values as one uncompressed batch, all records with the same timestamp.

    The defaults are what Kafka 4.3.1 writes to __consumer_offsets: no producer, and yet base
    sequence 0 (spec section 14.1). A value of None is a tombstone. Keys are never null here.

    Args:
        pairs: (key, value), at least one; all of them land in this batch, or none does.
        base_offset: the offset of the first, normally the log's end offset.
        timestamp_ms: epoch milliseconds.
    """
    assert pairs, "a batch without records is never written"
    parts = [b""]
    delta = 0
    try:
        for key, value in pairs:
            start = _RECORD_STARTS[delta] if delta < 256 else b"\0\0" + varint(delta)
            key_size = VARINTS[len(key)]
            if value is None:
                size = len(start) + len(key_size) + len(key) + 2
                parts += (VARINTS[size], start, key_size, key, _NULL_VALUE_NO_HEADERS)
            else:
                value_size = VARINTS[len(value)]
                size = len(start) + len(key_size) + len(key) + len(value_size) + len(value) + 1
                parts += (VARINTS[size], start, key_size, key, value_size, value, b"\0")
            delta += 1
    except IndexError:
        # A length beyond the table: a long assignment, say. The straight line starts over without
        # it.
        parts = [b""]
        delta = len(pairs)
        for index, (key, value) in enumerate(pairs):
            parts.append(_encode_record(index, 0, key, value, ()))
    parts[0] = _REST(
        attributes, delta - 1, timestamp_ms, timestamp_ms,
        producer_id, producer_epoch, base_sequence, delta,
    )  # fmt: skip
    rest = b"".join(parts)
    length = len(rest) + _FRONT_COUNTED_BYTES
    return _FRONT(base_offset, length, leader_epoch, 2, checksum.crc32c(rest)) + rest


def encode_records(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Records with their own offsets, timestamps and headers as one batch.

    Offsets must ascend and may have gaps, as after compaction. The first record's offset and
    timestamp are the batch's base. With `log_append_time_ms` every record has that timestamp.
    """
    assert records, "a batch without records is never written"
    base_offset, base_timestamp_ms = records[0].offset, records[0].timestamp_ms
    body = b"".join(
        _encode_record(offset - base_offset, timestamp_ms - base_timestamp_ms, key, value, headers)
        for offset, timestamp_ms, key, value, headers in records
    )
    attributes = int(compression) | (TRANSACTIONAL if transactional else 0)
    max_timestamp_ms = max(record.timestamp_ms for record in records)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp_ms = log_append_time_ms
    rest = _REST(
        attributes, records[-1].offset - base_offset, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, len(records),
    ) + compress(compression, body)  # fmt: skip
    length = len(rest) + _FRONT_COUNTED_BYTES
    return _FRONT(base_offset, length, leader_epoch, 2, checksum.crc32c(rest)) + rest


def encode_marker(
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a transaction on a partition (KIP-98; spec section 14.1)."""
    key = _MARKER_KEY.pack(0, 1 if commit else 0)
    return encode_batch(
        [(key, _MARKER_VALUE.pack(0, coordinator_epoch))],
        base_offset,
        timestamp_ms,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
    )


def rebuild_batch(
    header: BatchHeader,
    body: bytes,
    records: Sequence[RawRecord],
    *,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch of `header` with some of its records, as compaction leaves it (KIP-98, KIP-534).

    Offsets, producer, sequence and codec stay, and so does the last offset, of whatever record it
    was. The greatest timestamp becomes that of what is left.

    Args:
        header: of the batch that the records are taken from, of magic 2.
        body: its records, uncompressed.
        records: those that stay, at least one.
        delete_horizon_ms: the time from which on tombstones and markers of this batch may go. It
            takes the place of the base timestamp, so every record is written anew against it. None
            where the batch has none, or keeps the one it has.
    """
    assert header.magic == 2, "older batches know no gaps"
    assert records, "a batch without records is `empty_batch`"
    attributes, base_timestamp_ms = header.attributes, header.base_timestamp_ms
    max_timestamp_ms = header.max_timestamp_ms
    if not header.log_append_time:
        max_timestamp_ms = base_timestamp_ms + max(record[2] for record in records)
        max_timestamp_ms = _as_int64(max_timestamp_ms)
    if delete_horizon_ms is None:
        kept = b"".join(body[record[0] : record[1]] for record in records)
    else:
        parts: list[bytes] = []
        for _, stop, delta_ms, _, rest, _, _ in records:
            timestamp_ms = base_timestamp_ms + delta_ms
            if header.log_append_time:
                timestamp_ms = max_timestamp_ms
            delta = varint(_as_int64(timestamp_ms - delete_horizon_ms))
            parts += (_length(1 + len(delta) + stop - rest), b"\0", delta, body[rest:stop])
        kept = b"".join(parts)
        attributes |= HAS_DELETE_HORIZON
        base_timestamp_ms = delete_horizon_ms
    rest_bytes = _REST(
        attributes, header.last_offset_delta, base_timestamp_ms, max_timestamp_ms,
        header.producer_id, header.producer_epoch, header.base_sequence, len(records),
    ) + compress(Compression(header.compression), kept)  # fmt: skip
    return _front(header, rest_bytes)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch of `header` without any record: what compaction leaves where offsets and sequence
    of the batch must not be forgotten (KIP-98)."""
    assert header.magic == 2, "older batches know no gaps"
    attributes = header.attributes & ~(COMPRESSION_MASK | HAS_DELETE_HORIZON)
    rest = _REST(
        attributes, header.last_offset_delta, NO_TIMESTAMP, header.max_timestamp_ms,
        header.producer_id, header.producer_epoch, header.base_sequence, 0,
    )  # fmt: skip
    return _front(header, rest)


def encode_legacy(record: Record, magic: int, *, log_append_time: bool = False) -> bytes:
    """One record as an uncompressed message of magic 0 or 1, with its absolute offset (KIP-31).

    For compaction, where of a compressed message only some are left. Headers did not exist yet.
    """
    assert magic in (0, 1), "magic 2 has `encode_records`"
    assert not record.headers, "headers came with magic 2"
    parts = [magic.to_bytes(), (LOG_APPEND_TIME if log_append_time else 0).to_bytes()]
    if magic == 1:
        parts.append(record.timestamp_ms.to_bytes(8, signed=True))
    for content in (record.key, record.value):
        parts.append((-1 if content is None else len(content)).to_bytes(4, signed=True))
        parts.append(content or b"")
    body = b"".join(parts)
    crc = zlib.crc32(body)
    return b"".join((record.offset.to_bytes(8), (len(body) + 4).to_bytes(4), crc.to_bytes(4), body))


def _front(header: BatchHeader, rest: bytes) -> bytes:
    length = len(rest) + _FRONT_COUNTED_BYTES
    crc = checksum.crc32c(rest)
    return _FRONT(header.base_offset, length, header.leader_epoch, 2, crc) + rest


def _as_int64(value: int) -> int:
    """The number that Java's long would hold: timestamps that producers made up may overflow."""
    return (value + (_INT64_RANGE >> 1)) % _INT64_RANGE - (_INT64_RANGE >> 1)


def _encode_record(
    offset_delta: int,
    timestamp_delta_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    parts = [b"\0", varint(timestamp_delta_ms), varint(offset_delta)]
    _add_bytes(parts, key)
    _add_bytes(parts, value)
    parts.append(_length(len(headers)))
    for name, content in headers:
        # Names that were no UTF-8 were read with surrogates and go back as the same bytes.
        _add_bytes(parts, name.encode("utf-8", "surrogateescape"))
        _add_bytes(parts, content)
    body = b"".join(parts)
    return _length(len(body)) + body


def _add_bytes(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(b"\x01")  # the varint of -1
    else:
        parts.append(_length(len(content)))
        parts.append(content)


def _length(value: int) -> bytes:
    return VARINTS[value] if value < TABLE_SIZE else varint(value)
