"""Writing record batches of magic 2, and what compaction leaves of a batch.

Every commit passes through `encode_batch`: its varints come from a table, its header from two
structs, and its bytes from one join. A record that comes alone, as most do, is not collected in a
list, and only its timestamps are packed. The other functions are for compaction, recompression
and tests.
"""

import zlib
from collections.abc import Sequence
from struct import Struct

from coterie.protocol import checksum
from coterie.protocol.compression import Compression, compress
from coterie.protocol.raw_records import RawRecord
from coterie.protocol.record_batch import BatchHeader, Record
from coterie.protocol.record_batch_layout import (
    BASE_OFFSET,
    BASE_TIMESTAMP_AT,
    COMPRESSION_MASK,
    COUNTED_BEFORE_CRC_START,
    CRC_START,
    HAS_DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    PRODUCER_ID_AT,
    TIMESTAMP,
    TRANSACTIONAL,
)
from coterie.protocol.varints import TABLE_SIZE, VARINTS, varint

# Written as text because the compiled form has a function for each.
_pack_front = Struct(">qiibI").pack
_pack_rest = Struct(">hiqqqhii").pack
_pack_timestamps = Struct(">qq").pack
_join = b"".join
assert HEADER.format == ">qiibIhiqqqhii", "the first two pack the header in two parts"

# How a record of `encode_batch` begins, by offset delta: attributes 0, timestamp delta 0, offset
# delta.
_RECORD_STARTS = tuple(b"\0\0" + VARINTS[delta] for delta in range(256))

_NULL_VALUE_NO_HEADERS = b"\x01\0"

# What is before and behind the timestamps in the header of a single record without a producer, and
# how many bytes of the record are beside its key, its value and their lengths.
_PLAIN_HEADER = _pack_rest(0, 0, 0, 0, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, 1)
_BEFORE_TIMESTAMPS = _PLAIN_HEADER[: BASE_TIMESTAMP_AT - CRC_START]
_AFTER_TIMESTAMPS = _PLAIN_HEADER[PRODUCER_ID_AT - CRC_START :]
_SINGLE_RECORD_BYTES = len(_RECORD_STARTS[0]) + 1
_INT64_RANGE = 1 << 64
# The size of a record with fewer bytes of key and value is in the table of varints.
_SINGLE_BYTES = TABLE_SIZE - 16


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
    """Return keys and values as one batch whose records have the same timestamp.

    The defaults are those of the group log [record-batch/coordinator-batches]. The records of a
    batch are stored together or not at all.

    Args:
        pairs: keys and values, at least one pair; a value of None is a tombstone.
        base_offset: the offset of the first record, normally the log's end offset.
        timestamp_ms: epoch milliseconds.
        leader_epoch: see [record-batch/header], as for the arguments below.
        attributes: the bits, with the codec.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
    """
    assert pairs, "a batch without records is never written"
    if (
        len(pairs) == 1
        and not attributes
        and producer_id == NO_PRODUCER_ID
        and producer_epoch == NO_PRODUCER_EPOCH
        and not base_sequence
    ):
        key, value = pairs[0]
        if value is not None and len(key) + len(value) < _SINGLE_BYTES:
            return _encode_single(key, value, base_offset, timestamp_ms, leader_epoch)
    parts = [b""]
    delta = 0
    try:
        for key, value in pairs:
            start = _RECORD_STARTS[delta] if delta < 256 else b"\0\0" + _length(delta)
            if value is None:
                record = _join((start, VARINTS[len(key)], key, _NULL_VALUE_NO_HEADERS))
            else:
                value_size = VARINTS[len(value)]
                record = _join((start, VARINTS[len(key)], key, value_size, value, b"\0"))
            # Joining a record costs less than adding up the lengths of its parts.
            parts.append(VARINTS[len(record)])
            parts.append(record)
            delta += 1
    except IndexError:
        # A length is not in the table, for example that of a large assignment. Start over with the
        # general encoder.
        parts = [b""]
        delta = len(pairs)
        for index, (key, value) in enumerate(pairs):
            parts.append(_encode_record(index, 0, key, value, ()))
    parts[0] = _pack_rest(
        attributes, delta - 1, timestamp_ms, timestamp_ms,
        producer_id, producer_epoch, base_sequence, delta,
    )  # fmt: skip
    codec = attributes & COMPRESSION_MASK
    if codec:
        parts[1:] = [compress(Compression(codec), b"".join(parts[1:]))]
    rest = b"".join(parts)
    length = len(rest) + COUNTED_BEFORE_CRC_START
    return _pack_front(base_offset, length, leader_epoch, 2, checksum.crc32c(rest)) + rest


def _encode_single(
    key: bytes, value: bytes, base_offset: int, timestamp_ms: int, leader_epoch: int
) -> bytes:
    """Return a batch of one record: most commits and generations come alone."""
    key_size, value_size = VARINTS[len(key)], VARINTS[len(value)]
    size = _SINGLE_RECORD_BYTES + len(key_size) + len(key) + len(value_size) + len(value)
    rest = _join(
        (
            _BEFORE_TIMESTAMPS, _pack_timestamps(timestamp_ms, timestamp_ms), _AFTER_TIMESTAMPS,
            VARINTS[size], _RECORD_STARTS[0], key_size, key, value_size, value, b"\0",
        )
    )  # fmt: skip
    length = len(rest) + COUNTED_BEFORE_CRC_START
    return _pack_front(base_offset, length, leader_epoch, 2, checksum.crc32c(rest)) + rest


def encode_records(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Return records with their own offsets, timestamps and headers as one batch.

    Args:
        records: at least one; offsets ascend and may have gaps, as after compaction. Offset and
            timestamp of the first record become the base of the batch.
        compression: the codec of the records.
        compression_level: the level of the codec; None for the default.
        leader_epoch: see [record-batch/header], as for the producer's fields.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
        transactional: whether the records belong to a transaction.
        log_append_time_ms: the broker's time, which then counts for every record.
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
    rest = _pack_rest(
        attributes, records[-1].offset - base_offset, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, len(records),
    ) + compress(compression, body, compression_level)  # fmt: skip
    length = len(rest) + COUNTED_BEFORE_CRC_START
    return _pack_front(base_offset, length, leader_epoch, 2, checksum.crc32c(rest)) + rest


def rebuild_batch(
    header: BatchHeader,
    body: bytes,
    records: Sequence[RawRecord],
    *,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Return a batch with only some of its records [compaction/batches].

    Args:
        header: of the batch that the records are taken from, of magic 2.
        body: the uncompressed records.
        records: the parts of the records that stay, at least one.
        delete_horizon_ms: a new delete horizon [compaction/tombstones]. It takes the place of the
            base timestamp, so every timestamp delta is written anew. None if the batch gets no
            horizon or keeps the one that it has.
    """
    assert header.magic == 2, "older messages have no gaps"
    assert records, "a batch without records is an `empty_batch`"
    attributes, base_timestamp_ms = header.attributes, header.base_timestamp_ms
    max_timestamp_ms = header.max_timestamp_ms
    if not header.log_append_time:
        greatest_delta_ms = max(timestamp_delta_ms for _, _, timestamp_delta_ms, *_ in records)
        max_timestamp_ms = _as_int64(base_timestamp_ms + greatest_delta_ms)
    if delete_horizon_ms is None:
        kept = b"".join(body[start:stop] for start, stop, *_ in records)
    else:
        parts: list[bytes] = []
        for _, stop, timestamp_delta_ms, _, offset_delta_at, *_ in records:
            timestamp_ms = base_timestamp_ms + timestamp_delta_ms
            if header.log_append_time:
                timestamp_ms = max_timestamp_ms
            delta = varint(_as_int64(timestamp_ms - delete_horizon_ms))
            size = 1 + len(delta) + stop - offset_delta_at
            parts += (_length(size), b"\0", delta, body[offset_delta_at:stop])
        kept = b"".join(parts)
        attributes |= HAS_DELETE_HORIZON
        base_timestamp_ms = delete_horizon_ms
    rest = _pack_rest(
        attributes, header.last_offset_delta, base_timestamp_ms, max_timestamp_ms,
        header.producer_id, header.producer_epoch, header.base_sequence, len(records),
    ) + compress(Compression(header.compression), kept)  # fmt: skip
    return _with_front(header, rest)


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch without its records [compaction/batches]."""
    assert header.magic == 2, "older messages have no gaps"
    attributes = header.attributes & ~(COMPRESSION_MASK | HAS_DELETE_HORIZON)
    rest = _pack_rest(
        attributes, header.last_offset_delta, NO_TIMESTAMP, header.max_timestamp_ms,
        header.producer_id, header.producer_epoch, header.base_sequence, 0,
    )  # fmt: skip
    return _with_front(header, rest)


def encode_legacy(record: Record, magic: int, *, log_append_time: bool = False) -> bytes:
    """Return one record as an uncompressed message of magic 0 or 1.

    Only compaction writes such messages: what is left of a compressed one
    [compaction/legacy-messages].
    """
    assert magic in (0, 1), "magic 2 has `encode_records`"
    assert not record.headers, "headers exist since magic 2"
    parts = [magic.to_bytes(), (LOG_APPEND_TIME if log_append_time else 0).to_bytes()]
    if magic == 1:
        parts.append(TIMESTAMP.pack(record.timestamp_ms))
    for content in (record.key, record.value):
        parts.append((-1 if content is None else len(content)).to_bytes(4, signed=True))
        parts.append(content or b"")
    body = b"".join(parts)
    crc = zlib.crc32(body).to_bytes(4)
    length = (len(crc) + len(body)).to_bytes(LOG_OVERHEAD_BYTES - BASE_OFFSET.size)
    return b"".join((BASE_OFFSET.pack(record.offset), length, crc, body))


def _with_front(header: BatchHeader, rest: bytes) -> bytes:
    """Return the rest of a rewritten batch with base offset, length, epoch, magic and CRC."""
    length = len(rest) + COUNTED_BEFORE_CRC_START
    crc = checksum.crc32c(rest)
    return _pack_front(header.base_offset, length, header.leader_epoch, 2, crc) + rest


def _as_int64(value: int) -> int:
    """Return the number as a Java long: timestamps that a producer invented may overflow."""
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
        # The reverse of the reader's decoding [record-batch/record-check].
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
