"""Reading the records of a batch of any magic and any codec.

The one exception for malformed batches is `MalformedFrame` [record-batch/bounded-decoding].
"""

from collections.abc import Iterator

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.raw_records import open_body, split_records
from coterie.protocol.record_batch import BatchHeader, Record
from coterie.protocol.record_legacy import decode_legacy
from coterie.protocol.varints import read_varint


def decode_records(buffer: bytes, header: BatchHeader, position: int = 0) -> list[Record]:
    """Return the records of the batch at `position`.

    Raises:
        MalformedFrame: the batch is incomplete or damaged, or its records decompress to more than
            the limits allow [record-batch/bounded-decoding].
    """
    if header.magic < 2:
        return decode_legacy(buffer, header, position)
    body, start, end = open_body(buffer, header, position)
    records = []
    for (
        _, stop, timestamp_delta_ms, offset_delta, _, key_at, key_bytes, value_at, value_bytes,
    ) in split_records(body, start, end, header.record_count):  # fmt: skip
        value_end = value_at + value_bytes if value_bytes >= 0 else value_at
        timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms
        if header.log_append_time:
            timestamp_ms = header.max_timestamp_ms
        records.append(
            Record(
                header.base_offset + offset_delta,
                timestamp_ms,
                body[key_at : key_at + key_bytes] if key_bytes >= 0 else None,
                body[value_at:value_end] if value_bytes >= 0 else None,
                _read_headers(body, value_end, stop),
            )
        )
    return records


def decode_pairs(
    buffer: bytes, header: BatchHeader, position: int = 0
) -> list[tuple[bytes | None, bytes | None]]:
    """Return key and value of each record, and skip the rest.

    Raises:
        MalformedFrame: as `decode_records`, but for what is wrong in headers of records.
    """
    if header.magic < 2:
        return [(record.key, record.value) for record in decode_legacy(buffer, header, position)]
    body, start, end = open_body(buffer, header, position)
    return [
        (
            body[key_at : key_at + key_bytes] if key_bytes >= 0 else None,
            body[value_at : value_at + value_bytes] if value_bytes >= 0 else None,
        )
        for _, _, _, _, _, key_at, key_bytes, value_at, value_bytes in split_records(
            body, start, end, header.record_count
        )
    ]


def record_timestamps(
    buffer: bytes, header: BatchHeader, position: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield timestamp and offset of each record [record-batch/timestamps], and skip the rest.

    Raises:
        MalformedFrame: as `decode_records`, as far as records are read.
    """
    if header.magic < 2:
        for record in decode_legacy(buffer, header, position):
            yield record.timestamp_ms, record.offset
        return
    body, position, end = open_body(buffer, header, position)
    try:
        for _ in range(header.record_count):
            size, position = read_varint(body, position)
            stop = position + size
            if size < 0 or stop > end:
                raise MalformedFrame(f"a record of {size} bytes at byte {position} of its batch")
            timestamp_delta_ms, position = read_varint(body, position + 1)
            offset_delta, position = read_varint(body, position)
            timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms
            if header.log_append_time:
                timestamp_ms = header.max_timestamp_ms
            yield timestamp_ms, header.base_offset + offset_delta
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None


def _read_headers(body: bytes, position: int, stop: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a record that ends at `stop`."""
    if position + 1 == stop and not body[position]:
        return ()
    try:
        count, position = read_varint(body, position)
        headers: list[tuple[str, bytes | None]] = []
        # A header has at least two bytes, so the loop ends at the end of the record, whatever the
        # count claims.
        while len(headers) < count:
            name, position = _read_bytes(body, position, stop)
            content, position = _read_bytes(body, position, stop)
            if name is None:
                raise MalformedFrame(f"a record header without a name at byte {position}")
            headers.append((name.decode("utf-8", "surrogateescape"), content))
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    if position != stop or count < 0:
        raise MalformedFrame(f"a record with {count} headers ends at {position} and not at {stop}")
    return tuple(headers)


def _read_bytes(body: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        if size != -1:
            raise MalformedFrame(f"a length of {size} at byte {position}")
        return None, position
    if position + size > stop:
        raise MalformedFrame(f"{size} bytes at byte {position} of a record that ends at {stop}")
    return body[position : position + size], position + size
