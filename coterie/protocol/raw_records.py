"""Where the parts of each record of a batch are, without making records.

Other readers build on this one: compaction copies the bytes of the records that stay, a load needs
only keys and values, and layouts are learned from the lengths. Headers are skipped by the length of
the record. The one exception is `MalformedFrame`, and no count or length is believed further than
there are bytes [record-batch/bounded-decoding].
"""

from coterie.protocol.compression import decompress
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.record_batch_layout import HEADER_BYTES
from coterie.protocol.varints import read_varint

# The parts of one record: the position of its first byte (that of its length) and of the first byte
# after it; timestamp delta and offset delta; the position of the offset delta, so that everything
# from there on can be copied behind another timestamp; position and length of the key, then of the
# value, with -1 as the length of null. A plain tuple, because one is made for each record.
RawRecord = tuple[int, int, int, int, int, int, int, int, int]


def open_body(buffer: bytes, header: BatchHeader, position: int = 0) -> tuple[bytes, int, int]:
    """Return the uncompressed records of the batch at `position`: bytes, first position, end.

    Raises:
        MalformedFrame: the batch is incomplete, or its records cannot be decompressed.
    """
    start, end = position + HEADER_BYTES, position + header.length_bytes
    if end > len(buffer):
        raise MalformedFrame(f"a batch of {header.length_bytes} bytes is cut off at {len(buffer)}")
    # Compaction leaves batches without records, and these are not compressed.
    if not header.compression or start == end:
        return buffer, start, end
    body = decompress(header.compression, buffer[start:end])
    return body, 0, len(body)


def split_records(body: bytes, position: int, end: int, count: int) -> list[RawRecord]:
    """Return the parts of each of the `count` records between `position` and `end`.

    Raises:
        MalformedFrame: there are not exactly `count` records.
    """
    records: list[RawRecord] = []
    try:
        for _ in range(count):
            start = position
            size, position = read_varint(body, position)
            stop = position + size
            if size < 0 or stop > end:
                raise MalformedFrame(f"a record of {size} bytes at byte {start} of its batch")
            timestamp_delta_ms, offset_delta_at = read_varint(body, position + 1)
            offset_delta, position = read_varint(body, offset_delta_at)
            key_bytes, key_at = read_varint(body, position)
            value_bytes, value_at = read_varint(
                body, key_at + key_bytes if key_bytes > 0 else key_at
            )
            if key_bytes < -1 or value_bytes < -1:
                raise MalformedFrame(f"a length below -1 in the record at byte {start}")
            if value_at + max(value_bytes, 0) >= stop:
                raise MalformedFrame(f"a record of {size} bytes at byte {start} is too short")
            records.append(
                (
                    start, stop, timestamp_delta_ms, offset_delta, offset_delta_at,
                    key_at, key_bytes, value_at, value_bytes,
                )
            )  # fmt: skip
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    _check_end(position, end)
    return records


def offsets_and_keys(
    body: bytes, header: BatchHeader, records: list[RawRecord]
) -> list[tuple[int, bytes | None]]:
    """Return the absolute offset and the key of each record.

    Args:
        body: the uncompressed records.
        header: of their batch.
        records: the parts of the records.
    """
    return [
        (
            header.base_offset + offset_delta,
            body[key_at : key_at + key_bytes] if key_bytes >= 0 else None,
        )
        for _, _, _, offset_delta, _, key_at, key_bytes, _, _ in records
    ]


def split_keys(body: bytes, position: int, end: int, count: int) -> list[bytes | None]:
    """Return the keys of the `count` records between `position` and `end`.

    This is `split_records` for the first pass of compaction, which needs nothing else. Lengths of
    one byte are read in line.

    Raises:
        MalformedFrame: there are not exactly `count` records.
    """
    keys: list[bytes | None] = []
    try:
        for _ in range(count):
            size = body[position]
            if size & 129:
                size, position = read_varint(body, position)
            else:
                size >>= 1
                position += 1
            stop = position + size
            if size < 0 or stop > end:
                raise MalformedFrame(f"a record of {size} bytes before byte {position}")
            # Attributes, timestamp delta, offset delta.
            if body[position + 1] | body[position + 2] < 128:
                position += 3
            else:
                _, position = read_varint(body, position + 1)
                _, position = read_varint(body, position)
            size = body[position]
            if size & 129:
                size, position = read_varint(body, position)
            else:
                size >>= 1
                position += 1
            if size >= 0:
                keys.append(body[position : position + size])
                position += size
            elif size == -1:
                keys.append(None)
            else:
                raise MalformedFrame(f"a key of {size} bytes before byte {position}")
            if body[position] & 1 and body[position] != 1:
                raise MalformedFrame(f"a value with a length below -1 at byte {position}")
            # The value's length and the number of headers take at least one byte each.
            if position + 1 >= stop:
                raise MalformedFrame(f"a record ends at byte {position} and not at {stop}")
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    _check_end(position, end)
    return keys


def _check_end(position: int, end: int) -> None:
    if position != end:
        raise MalformedFrame(f"a batch has {end - position} bytes after its last record")
