"""Read the records of many batches at once: positions of keys and values, offsets and times.

Only the lengths of the records have to be read one after the other. In a batch whose records may
all have the same length, all lengths are read at once. In the other batches record k of every
batch is read at once, and a plain loop reads the few long batches that remain in the end. Every
other field is read for all records of the piece at once.

Compressed blocks are decompressed first, and their records are read together with the others.
`protocol.records` reads messages of magic 0 and 1, records with headers and everything that looks
wrong, one batch at a time. It also decides what is damage, so the records are exactly those that
the scalar decoder returns [pipeline/quarantine].
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.numbers import Bools, Buffer, Int64s
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
)
from coterie.protocol.records import Record, decode_records, decompress, read_header

# With fewer batches than this, a loop over each batch is faster than numpy's calls.
_LOCK_STEP_BATCHES = 48
# The shortest record: length, attributes, two deltas, two lengths, header count.
_MIN_RECORD_BYTES = 7
# A varint of two bytes holds lengths up to 8,191.
_EVEN_LENGTH_BYTES = 2
_TWO_BYTES = np.dtype("<u2")


@dataclass(frozen=True, slots=True)
class Records:
    """The fields of records, one array per field, in the order of the log.

    A size of -1 is null. `batch` is the number of the record's batch; `start` and `stop` enclose
    the record's bytes.
    """

    batch: Int64s
    offset: Int64s
    timestamp_ms: Int64s
    start: Int64s
    stop: Int64s
    key_start: Int64s
    key_size: Int64s
    value_start: Int64s
    value_size: Int64s

    def __len__(self) -> int:
        return len(self.offset)

    def select(self, index: Int64s | Bools) -> "Records":
        """Return the records that a mask or an index array selects."""
        return Records(*(getattr(self, name)[index] for name in _FIELDS))


_FIELDS = tuple(field.name for field in fields(Records))


class Opened(NamedTuple):
    """Records, the buffer that contains them, and the blocks that could not be decompressed.

    The buffer is longer than the piece if blocks were decompressed.
    """

    buffer: Buffer
    batches: Batches
    records: Records
    damages: list[Damage]


def open_records(buffer: Buffer, batches: Batches) -> Opened:
    """Return all records of valid batches."""
    bodies = _Bodies(buffer, batches)
    begin, stop, count = bodies.begin, bodies.stop, batches.record_count.copy()
    count[~bodies.plain] = 0
    # More records than there are bytes for are a damaged count. Without this check the loop below
    # would run for every record that the count claims.
    suspect = count > (stop - begin) // _MIN_RECORD_BYTES
    count[suspect] = 0
    work = bodies.buffer
    starts, sizes, batch, ended = _walk(work, begin, stop, count, suspect)
    suspect |= bodies.plain & (ended != stop)
    records, wrong = _read_fields(work, batches, starts, sizes, batch)
    suspect[batch[wrong]] = True
    singly = np.flatnonzero(suspect | bodies.legacy)
    if singly.size:
        records = records.select(~np.isin(records.batch, singly))
        records, work = bodies.add_decoded_singly(records, singly.tolist())
    return Opened(work, batches, records, bodies.damages)


class _Bodies:
    """The position of each batch's records, in a buffer to which decompressed blocks are added."""

    def __init__(self, buffer: Buffer, batches: Batches) -> None:
        self.piece = buffer
        self.buffer = buffer
        self.batches = batches
        self.damages: list[Damage] = []
        self.begin = batches.position + HEADER_BYTES
        self.stop = batches.position + batches.length_bytes
        self.legacy = batches.magic < 2
        self.plain = ~self.legacy
        compressed = np.flatnonzero(self.plain & (batches.attributes & COMPRESSION_MASK != 0))
        if compressed.size:
            self._open(compressed.tolist())

    def _open(self, compressed: list[int]) -> None:
        parts = [self.piece.data]
        end = len(self.piece)
        for index in compressed:
            block = self.piece.data[self.begin[index] : self.stop[index]]
            codec = int(self.batches.attributes[index]) & COMPRESSION_MASK
            try:
                body = decompress(codec, block)
            except MalformedFrame as error:
                self._damaged(index, reasons.COMPRESSION, str(error))
                self.plain[index] = False
                continue
            parts.append(body)
            self.begin[index], end = end, end + len(body)
            self.stop[index] = end
        self.buffer = Buffer(b"".join(parts))

    def _damaged(self, index: int, reason: str, detail: str) -> None:
        start = int(self.batches.position[index])
        stop = start + int(self.batches.length_bytes[index])
        offset = int(self.batches.base_offset[index])
        self.damages.append(damage(self.piece.data, start, stop, reason, detail, offset))

    def add_decoded_singly(self, records: Records, indexes: list[int]) -> tuple[Records, Buffer]:
        """Add the records of batches that `protocol.records` decodes, in the order of the log."""
        rows: list[tuple[int, ...]] = []
        extra = bytearray()
        for index in indexes:
            position = int(self.batches.position[index])
            header = read_header(self.piece.data, position)
            try:
                found = decode_records(self.piece.data, header, position)
            except MalformedFrame as error:
                self._damaged(index, reasons.BAD_LENGTH, str(error))
                continue
            rows.extend(_row(index, record, extra, len(self.buffer)) for record in found)
        if not rows:
            return records, self.buffer
        added = np.array(rows, np.int64).T
        columns = [
            np.concatenate((getattr(records, name), column))
            for name, column in zip(_FIELDS, added, strict=True)
        ]
        merged = Records(*columns)
        order = np.argsort(merged.batch, kind="stable")
        return merged.select(order), Buffer(self.buffer.data + bytes(extra))


def _row(batch: int, record: Record, extra: bytearray, before: int) -> tuple[int, ...]:
    """Append a record's key and value to `extra`, and return its fields.

    `extra` is going to follow `before` other bytes of the buffer.
    """
    key_start = before + len(extra)
    extra += record.key or b""
    value_start = before + len(extra)
    extra += record.value or b""
    return (
        batch, record.offset, record.timestamp_ms, key_start, before + len(extra),
        key_start, -1 if record.key is None else len(record.key),
        value_start, -1 if record.value is None else len(record.value),
    )  # fmt: skip


def _walk(
    buffer: Buffer, begin: Int64s, stop: Int64s, count: Int64s, suspect: Bools
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Find the records by their lengths.

    A batch whose lengths lead out of it is marked in `suspect`. Its results are meaningless.

    Returns:
        For each record where it begins behind its length, its length and its batch; for each batch
        where its last record ends.
    """
    first = np.cumsum(count) - count
    total = int(count.sum())
    if not total:
        return *(np.zeros(0, np.int64),) * 3, begin
    batch = np.repeat(np.arange(len(count)), count)
    even, starts, sizes = _step_evenly(buffer, begin, stop, count, batch)
    at = np.where(even, stop, begin)
    count = np.where(even, 0, count)
    order = np.argsort(-count, kind="stable")
    sorted_count = count[order]
    step = 0
    while True:
        active = order[: int(np.searchsorted(-sorted_count, -step, side="left"))]
        if len(active) < _LOCK_STEP_BATCHES:
            break
        size, after, overlong = buffer.varints(at[active])
        wrong = (size < 0) | (size > stop[active] - after)
        if overlong is not None:
            wrong |= overlong
        if wrong.any():
            suspect[active[wrong]] = True
            size[wrong] = 0
            after[wrong] = begin[active[wrong]]
        where = first[active] + step
        starts[where] = after
        sizes[where] = size
        at[active] = after + size
        step += 1
    for index in active.tolist():
        if suspect[index]:
            continue
        low = int(first[index]) + step
        high = int(first[index] + count[index])
        walked = _walk_one(buffer.data, int(at[index]), int(stop[index]), high - low)
        if walked is None:
            suspect[index] = True
            continue
        starts[low:high], sizes[low:high], at[index] = walked
    return starts, sizes, batch, at


def _step_evenly(
    buffer: Buffer, begin: Int64s, stop: Int64s, count: Int64s, batch: Int64s
) -> tuple[Bools, Int64s, Int64s]:
    """Find the batches whose records are all as long as the first one.

    Commits of a group that reads one topic often are. A batch whose size is a multiple of its first
    record's length is probably of this kind, and then the length of every record is compared.

    Returns:
        Which batches are of this kind; for every record of theirs where it begins and its length.
    """
    size, after, _ = buffer.varints(begin)
    width = after - begin
    pitch = width + size
    even = (count > 0) & (width <= _EVEN_LENGTH_BYTES) & (size >= 0)
    even &= pitch * count == stop - begin
    first = np.cumsum(count) - count
    starts = (begin - first * pitch)[batch] + pitch[batch] * np.arange(len(batch))
    if even.any():
        mask = np.where(width == 1, 0xFF, 0xFFFF).astype(np.uint16)
        length = buffer.read_as(_TWO_BYTES, begin) & mask
        other = (buffer.read_as(_TWO_BYTES, starts) & mask[batch]) != length[batch]
        even[batch[other]] = False
    starts += width[batch]
    return even, starts, size[batch]


def _walk_one(
    data: bytes, position: int, stop: int, count: int
) -> tuple[list[int], list[int], int] | None:
    """Find the next `count` records of one batch.

    Returns:
        Where they begin behind their lengths, their lengths, and where the last one ends; None if a
        length leads out of the batch.
    """
    starts, sizes = [], []
    for _ in range(count):
        if position >= stop:
            return None
        size = data[position]
        position += 1
        if size > 127:
            size &= 127
            shift = 7
            while True:
                if position >= stop or shift > 35:
                    return None
                octet = data[position]
                position += 1
                size |= (octet & 127) << shift
                if octet < 128:
                    break
                shift += 7
        if size & 1:
            return None
        size >>= 1
        starts.append(position)
        sizes.append(size)
        position += size
    return (starts, sizes, position) if position <= stop else None


def _read_fields(
    buffer: Buffer, batches: Batches, starts: Int64s, sizes: Int64s, batch: Int64s
) -> tuple[Records, Bools]:
    """Read the fields of every record, and return which records have other fields than these."""
    stops = starts + sizes
    timestamp_delta, at, long_1 = buffer.varints(starts + 1)
    offset_delta, at, long_2 = buffer.varints(at)
    key_size, key_start, long_3 = buffer.varints(at)
    wrong = (key_size < -1) | (key_size > stops - key_start)
    key_size[wrong] = 0
    value_size, value_start, long_4 = buffer.varints(key_start + np.maximum(key_size, 0))
    wrong |= (value_size < -1) | (value_size > stops - value_start)
    value_size[wrong] = 0
    # Exactly one byte must be left, a header count of zero.
    tail = value_start + np.maximum(value_size, 0)
    wrong |= (tail + 1 != stops) | (buffer.bytes_at(tail) != 0)
    for overlong in (long_1, long_2, long_3, long_4):
        if overlong is not None:
            wrong |= overlong
    timestamp_ms = batches.base_timestamp_ms[batch] + timestamp_delta
    append_time = batches.attributes & LOG_APPEND_TIME != 0
    if append_time.any():
        timestamp_ms = np.where(append_time[batch], batches.max_timestamp_ms[batch], timestamp_ms)
    records = Records(
        batch, batches.base_offset[batch] + offset_delta, timestamp_ms, starts, stops,
        key_start, key_size, value_start, value_size,
    )  # fmt: skip
    return records, wrong


def is_control(batches: Batches) -> Bools:
    """Return which batches hold transaction markers instead of data."""
    control: Bools = batches.attributes & CONTROL != 0
    return control
