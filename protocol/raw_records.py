"""Looking into a batch of magic 2 without making its records: keys, and slices to copy.

Compaction asks of each record only its key, its offset and whether it has a value, and copies the
bytes of what stays. Headers and values are stepped over by their lengths. As everywhere, the one
exception is `MalformedFrame`, and no count is believed further than bytes are there.
"""

from coterie.protocol.compression import decompress
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import HEADER_BYTES, BatchHeader
from coterie.protocol.varints import read_varint

# One record: its first byte (that of its length) and the one after its last; timestamp delta and
# offset delta; where the offset delta stands, so that what follows can be copied under another
# timestamp; the key; whether there is a value. A bare tuple: one is made for every record.
RawRecord = tuple[int, int, int, int, int, bytes | None, bool]


def open_body(buffer: bytes, header: BatchHeader, position: int = 0) -> tuple[bytes, int, int]:
    """Where the uncompressed records of the batch at `position` are: (bytes, first byte, end).

    Raises:
        MalformedFrame: they can't be decompressed.
    """
    start, end = position + HEADER_BYTES, position + header.length_bytes
    # Compaction leaves batches without records, and nothing is compressed to nothing.
    if not header.compression or start == end:
        return buffer, start, end
    body = decompress(header.compression, buffer[start:end])
    return body, 0, len(body)


def split_records(body: bytes, position: int, end: int, count: int) -> list[RawRecord]:
    """Each of the `count` records between `position` and `end`.

    Raises:
        MalformedFrame: they are not exactly `count` records.
    """
    records: list[RawRecord] = []
    try:
        for _ in range(count):
            start = position
            size, position = read_varint(body, position)
            stop = position + size
            if size < 0 or stop > end:
                raise MalformedFrame(f"a record of {size} bytes at byte {start} of its batch")
            timestamp_delta_ms, rest = read_varint(body, position + 1)
            offset_delta, position = read_varint(body, rest)
            size, position = read_varint(body, position)
            key = None
            if size >= 0:
                key = body[position : position + size]
                position += size
            size, position = read_varint(body, position)
            if position + max(size, 0) >= stop:
                raise MalformedFrame(f"a record ends at byte {position} and not at {stop}")
            records.append(
                (start, stop, timestamp_delta_ms, offset_delta, rest, key, size >= 0)
            )  # fmt: skip
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    _check_end(position, end)
    return records


def split_keys(body: bytes, position: int, end: int, count: int) -> tuple[list[bytes | None], bool]:
    """The keys of `count` records, and whether one of them has no value: a tombstone.

    `split_records` with less to say; lengths of one byte are read in line.

    Raises:
        MalformedFrame: as `split_records`.
    """
    keys: list[bytes | None] = []
    tombstones = False
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
            else:
                keys.append(None)
            if body[position] & 1:
                tombstones = True
            # A value's length and the number of headers are at least one byte each.
            if position + 1 >= stop:
                raise MalformedFrame(f"a record ends at byte {position} and not at {stop}")
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    _check_end(position, end)
    return keys, tombstones


def _check_end(position: int, end: int) -> None:
    if position != end:
        raise MalformedFrame(f"a batch has {end - position} bytes after its last record")
