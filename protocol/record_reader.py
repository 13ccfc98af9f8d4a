"""Reading records: whole batches, and the narrower looks that loading and searching need.

Whatever a batch holds, the one exception is `MalformedFrame`. Counts and lengths are believed only
as far as bytes are there: a count of two billion in a small batch fails at the first missing byte.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from coterie.protocol.compression import decompress
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import HEADER_BYTES, BatchHeader, Record, read_header
from coterie.protocol.record_legacy import decode_legacy
from coterie.protocol.varints import read_varint

_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

# Length, magic, attributes, record count: what decides how a batch is read in bulk.
_BULK_HEADER = struct.Struct(">8xi4xb4xh34xi")


class Marker(NamedTuple):
    """The end of a transaction: committed or aborted, by the coordinator of that epoch (KIP-98)."""

    commit: bool
    coordinator_epoch: int


def decode_records(buffer: bytes, header: BatchHeader, position: int = 0) -> list[Record]:
    """The records of the batch at `position`, which must be whole; any magic, any compression.

    Header names that are no UTF-8 keep their bytes as surrogates: a producer may send any bytes.

    Raises:
        MalformedFrame: the batch is cut off, damaged, or opens to more than `compression` allows.
    """
    if header.magic < 2:
        return decode_legacy(buffer, header, position)
    body, position, end = _body(buffer, header, position)
    try:
        records = []
        for _ in range(header.record_count):
            record, position = _read_record(body, position, end, header)
            records.append(record)
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    if position != end:
        raise MalformedFrame(f"a batch has {end - position} bytes after its last record")
    return records


def decode_pairs(
    buffer: bytes, header: BatchHeader, position: int = 0
) -> list[tuple[bytes | None, bytes | None]]:
    """Only keys and values, in order. Raises as `decode_records` does."""
    return [(record.key, record.value) for record in decode_records(buffer, header, position)]


def record_timestamps(
    buffer: bytes, header: BatchHeader, position: int = 0
) -> Iterator[tuple[int, int]]:
    """(timestamp_ms, offset) of each record, without building the records. Raises as above."""
    if header.magic < 2:
        for record in decode_legacy(buffer, header, position):
            yield record.timestamp_ms, record.offset
        return
    body, position, end = _body(buffer, header, position)
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


def read_marker(record: Record) -> Marker | None:
    """The marker in a control batch's record; None for control records of other kinds."""
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        raise MalformedFrame(f"the control record at offset {record.offset} has no key")
    _, kind = _MARKER_KEY.unpack_from(record.key)
    if kind not in (0, 1):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise MalformedFrame(f"the marker at offset {record.offset} is cut off")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    return Marker(kind == 1, coordinator_epoch)


def iterate_pairs(
    buffer: bytes,
) -> Iterator[tuple[BatchHeader | None, list[tuple[bytes | None, bytes | None]]]]:
    """Keys and values of whole batches in bulk, for loading a log (spec section 14.3).

    Neighbouring batches without attributes come as one list with no header: that is nearly all of a
    coordinator's log, and no object is made for a batch of them. Every other batch (transactional,
    control, compressed, older magic) comes alone with its header. Checksums are not looked at.

    Raises:
        MalformedFrame: as `decode_records`.
    """
    position, end = 0, len(buffer)
    run: list[tuple[bytes | None, bytes | None]] = []
    while position < end:
        if position + HEADER_BYTES > end or buffer[position + 16] != 2:
            plain = False
        else:
            length, _, attributes, count = _BULK_HEADER.unpack_from(buffer, position)
            plain = attributes == 0
        if plain:
            stop = position + 12 + length
            if stop > end or length < HEADER_BYTES - 12:
                raise MalformedFrame(f"a batch of {length} bytes at byte {position} of {end}")
            _add_pairs(run, buffer, position + HEADER_BYTES, stop, count)
            position = stop
        else:
            if run:
                yield None, run
                run = []
            header = read_header(buffer, position)
            yield header, decode_pairs(buffer, header, position)
            position += header.length_bytes
    if run:
        yield None, run


def _body(buffer: bytes, header: BatchHeader, position: int) -> tuple[bytes, int, int]:
    """Where the uncompressed records are: (bytes, first position, end)."""
    end = position + header.length_bytes
    if end > len(buffer):
        raise MalformedFrame(f"a batch of {header.length_bytes} bytes is cut off at {len(buffer)}")
    # Compaction leaves batches without records, and nothing is compressed to nothing.
    if not header.compression or end == position + HEADER_BYTES:
        return buffer, position + HEADER_BYTES, end
    body = decompress(header.compression, buffer[position + HEADER_BYTES : end])
    return body, 0, len(body)


def _read_record(body: bytes, position: int, end: int, header: BatchHeader) -> tuple[Record, int]:
    size, position = read_varint(body, position)
    stop = position + size
    if size < 0 or stop > end:
        raise MalformedFrame(f"a record claims {size} bytes where {end - position} are left")
    # The record's attributes are unused in every version.
    timestamp_delta_ms, position = read_varint(body, position + 1)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position, stop)
    value, position = _read_bytes(body, position, stop)
    count, position = read_varint(body, position)
    headers: list[tuple[str, bytes | None]] = []
    # Each header has two lengths, so the loop ends at the record's last byte whatever the count.
    while len(headers) < count:
        name, position = _read_bytes(body, position, stop)
        content, position = _read_bytes(body, position, stop)
        if name is None:
            raise MalformedFrame(f"a record header without a name at byte {position}")
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if position != stop or count < 0:
        raise MalformedFrame(f"a record with {count} headers ends at {position} and not at {stop}")
    timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms
    if header.log_append_time:
        timestamp_ms = header.max_timestamp_ms
    offset = header.base_offset + offset_delta
    return Record(offset, timestamp_ms, key, value, tuple(headers)), stop


def _read_bytes(body: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        if size != -1:
            raise MalformedFrame(f"a length of {size} at byte {position}")
        return None, position
    if position + size > stop:
        raise MalformedFrame(f"{size} bytes at byte {position} of a record that ends at {stop}")
    return body[position : position + size], position + size


def _add_pairs(
    run: list[tuple[bytes | None, bytes | None]],
    buffer: bytes,
    position: int,
    end: int,
    count: int,
) -> None:
    """Append the pairs of one plain batch to `run`: `_read_record` for keys and values only.

    One- and two-byte lengths are read in line; headers are stepped over by the record's length.
    """
    try:
        for _ in range(count):
            size = buffer[position]
            position += 1
            if size & 129:
                rest = buffer[position]
                if rest > 127 or size & 1:
                    size, position = read_varint(buffer, position - 1)
                else:
                    size = (size & 127 | rest << 7) >> 1
                    position += 1
            else:
                size >>= 1
            stop = position + size
            if size < 0 or stop > end:
                raise MalformedFrame(f"a record of {size} bytes at byte {position}")
            if buffer[position + 1] | buffer[position + 2] < 128:
                position += 3
            else:
                _, position = read_varint(buffer, position + 1)
                _, position = read_varint(buffer, position)
            size = buffer[position]
            if size & 129:
                key, position = _read_bytes(buffer, position, stop)
            else:
                position += 1
                key = buffer[position : position + (size >> 1)]
                position += size >> 1
            size = buffer[position]
            if size & 129:
                value, position = _read_bytes(buffer, position, stop)
            else:
                position += 1
                value = buffer[position : position + (size >> 1)]
                position += size >> 1
            if position >= stop:
                raise MalformedFrame(f"a record ends at byte {position} and not at {stop}")
            run.append((key, value))
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    if position != end:
        raise MalformedFrame(f"a batch has {end - position} bytes after its last record")
