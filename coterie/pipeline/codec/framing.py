"""Find the batches in a piece of a log: where each begins, and whether it is whole and undamaged.

Stepping from one length to the next is the only sequential part of decoding. The headers are then
checked for all batches at once. The CRC does not cover base offset, leader epoch, magic and length
[pipeline/batch-order]; `order.py` compares the offsets and epochs of neighbours.

After damage, decoding continues at the next whole batch [pipeline/quarantine].
"""

import zlib
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.numbers import Bools, Buffer, Int64s
from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import (
    CRC_START,
    HEADER_BYTES,
    HEADER_FIELDS,
    LAST_OFFSET_DELTA_AT,
    LEGACY_CRC_START,
    LEGACY_MIN_BYTES,
    LENGTH,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
)
from coterie.protocol.records import check_crc, read_header
from coterie.storage.batches import MAX_BATCH_BYTES

# The shortest batch is a message of magic 0 without key and value.
MIN_BATCH_BYTES = LEGACY_MIN_BYTES[0]
_NO_EPOCH = -1
# A search for the next batch examines this many positions at once.
_SEARCH_BYTES = 64 << 10

# The header of magic 2 [record-batch/header].
_HEADER = np.dtype([(name, f">{character}") for name, character in HEADER_FIELDS])


@dataclass(frozen=True, slots=True)
class Batches:
    """The headers of batches, one array per field. Positions count from the buffer's first byte."""

    position: Int64s
    length_bytes: Int64s
    base_offset: Int64s
    leader_epoch: Int64s
    magic: Int64s
    crc: Int64s
    attributes: Int64s
    last_offset_delta: Int64s
    base_timestamp_ms: Int64s
    max_timestamp_ms: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    record_count: Int64s

    def __len__(self) -> int:
        return len(self.position)

    @property
    def last_offset(self) -> Int64s:
        """The last offset of each batch."""
        return self.base_offset + self.last_offset_delta

    def select(self, index: npt.NDArray[np.generic] | slice) -> "Batches":
        """Return the batches that a mask, a slice or an index array selects."""
        return Batches(*(getattr(self, name)[index] for name in BATCH_FIELDS))


BATCH_FIELDS = tuple(field.name for field in fields(Batches))


class Framed(NamedTuple):
    """The batches of a piece, its damage, and the position at which the next piece must begin."""

    batches: Batches
    damages: list[Damage]
    consumed: int


def frame(buffer: Buffer, *, final: bool, crc: bool = True) -> Framed:
    """Find the batches of a piece that begins with a batch.

    Args:
        buffer: a piece of a log file, from the first byte of a batch on.
        final: whether the file ends with the piece. Bytes that are left over are then damage
            (`torn`). Otherwise they are left for the next piece, which has the bytes behind them.
        crc: whether to compute checksums.
    """
    data, end = buffer.data, len(buffer)
    runs: list[Batches] = []
    damages: list[Damage] = []
    position = 0
    while position < end:
        starts, stop = _follow_lengths(data, position, end)
        batches = _headers(buffer, np.array(starts, np.int64))
        valid = _valid(data, batches, crc=crc)
        taken, position = _split_at_damage(data, batches, valid, stop, damages)
        runs.append(taken)
        if position == end:
            break
        if position == stop and not final and _is_cut_off(data, position, end):
            break
        found = _next_valid(data, position + 1, end)
        if found is None:
            if final:
                damages.append(_diagnose(data, position, end))
                position = end
            break
        damages.append(_diagnose(data, position, found))
        position = found
    return Framed(_concatenate(runs), damages, position)


def _concatenate(runs: list[Batches]) -> Batches:
    if len(runs) == 1:
        return runs[0]
    if not runs:
        return Batches(*(np.zeros(0, np.int64) for _ in BATCH_FIELDS))
    return Batches(*(np.concatenate([getattr(run, name) for run in runs]) for name in BATCH_FIELDS))


def _follow_lengths(data: bytes, position: int, end: int) -> tuple[list[int], int]:
    """Return where batches begin if every length is right, and where the last of them ends."""
    starts: list[int] = []
    unpack = LENGTH.unpack_from
    add = starts.append
    last = end - LOG_OVERHEAD_BYTES
    shortest = MIN_BATCH_BYTES - LOG_OVERHEAD_BYTES
    while position <= last:
        (length,) = unpack(data, position)
        if length < shortest:
            return starts, position
        add(position)
        position += length + LOG_OVERHEAD_BYTES
    if position > end:
        # The last batch is cut off: only its beginning is in this piece.
        position = starts.pop()
    return starts, position


def _headers(buffer: Buffer, position: Int64s) -> Batches:
    """Read the headers at the positions. Those of magic 0 and 1 are given the same fields."""
    headers = buffer.read_as(_HEADER, position)
    read = {name: headers[name].astype(np.int64) for name in _HEADER.names or ()}
    length = read.pop("length") + LOG_OVERHEAD_BYTES
    legacy = np.flatnonzero(read["magic"] < 2)
    for index in legacy:
        try:
            header = read_header(buffer.data, int(position[index]))
        except MalformedFrame:
            read["magic"][index] = -1
            continue
        for name, values in read.items():
            values[index] = getattr(header, name)
    return Batches(position=position, length_bytes=length, **read)


def _valid(data: bytes, batches: Batches, *, crc: bool) -> Bools:
    """Return which headers are possible and, with `crc`, whose checksum is correct."""
    modern = batches.magic == 2
    right = (batches.base_offset >= 0) & (batches.magic >= 0) & (batches.magic <= 2)
    right &= ~modern | (
        (batches.leader_epoch >= _NO_EPOCH)
        & (batches.length_bytes >= HEADER_BYTES)
        & (batches.last_offset_delta >= 0)
        & (batches.record_count >= 0)
    )
    if not crc:
        return right
    starts = (batches.position + CRC_START).tolist()
    stops = (batches.position + batches.length_bytes).tolist()
    # map and slice are C functions: no line of Python runs for each batch here.
    bodies = map(data.__getitem__, map(slice, starts, stops))
    computed = np.fromiter(map(checksum.crc32c, bodies), np.int64, len(starts))
    same = computed == batches.crc
    for index in np.flatnonzero(right & ~modern):
        position = int(batches.position[index])
        same[index] = check_crc(data, read_header(data, position), position)
    right &= same
    return right


def _split_at_damage(
    data: bytes, batches: Batches, valid: Bools, stop: int, damages: list[Damage]
) -> tuple[Batches, int]:
    """Return the valid batches of a chain, and where the chain cannot be followed any further.

    If the length of a damaged batch leads to a valid one, the damage is exactly its own bytes.
    """
    if valid.all():
        return batches, stop
    count = len(batches)
    for index in np.flatnonzero(~valid).tolist():
        start = int(batches.position[index])
        if index + 1 == count or not valid[index + 1]:
            keep = valid.copy()
            keep[index:] = False
            return batches.select(keep), start
        damages.append(_diagnose(data, start, int(batches.position[index + 1])))
    return batches.select(valid), stop


def _is_cut_off(data: bytes, position: int, end: int) -> bool:
    """Return whether a batch may begin here whose rest is missing."""
    if end - position < HEADER_BYTES:
        return True
    try:
        header = read_header(data, position)
    except MalformedFrame:
        return False
    return end - position < header.length_bytes <= MAX_BATCH_BYTES


def _next_valid(data: bytes, position: int, end: int) -> int | None:
    """Return the first position from here on at which a batch of magic 2 has a correct CRC."""
    while position + HEADER_BYTES <= end:
        window = np.frombuffer(data, np.uint8, min(_SEARCH_BYTES, end - position - 16), position)
        piece = Buffer(data[position : position + _SEARCH_BYTES + HEADER_BYTES])
        at = np.arange(min(len(window), len(piece) - HEADER_BYTES + 1), dtype=np.int64)
        at = at[piece.octets[at + MAGIC_AT] == 2]
        length = piece.read(">i4", at + LENGTH_AT) + LOG_OVERHEAD_BYTES
        possible = (length >= HEADER_BYTES) & (length <= end - position - at)
        possible &= (piece.read(">i8", at) >= 0) & (
            piece.read(">i4", at + LAST_OFFSET_DELTA_AT) >= 0
        )
        for candidate in at[possible].tolist():
            if check_crc(data, read_header(data, position + candidate), position + candidate):
                return int(position + candidate)
        position += _SEARCH_BYTES
    return None


def _diagnose(data: bytes, start: int, stop: int) -> Damage:
    """Return the bytes from `start` to `stop` as damage, with the first thing wrong as reason."""
    if not any(data[start:stop]):
        # File systems leave zeros where a file was extended and the data was never written.
        return damage(data, start, stop, reasons.TORN, "zeros: nothing was written here")
    try:
        header = read_header(data, start)
    except MalformedFrame as error:
        cut = stop == len(data) and stop - start < HEADER_BYTES
        return damage(data, start, stop, reasons.TORN if cut else reasons.HEADER, str(error))
    if start + header.length_bytes > stop:
        detail = f"the header claims {header.length_bytes} bytes, only {stop - start} are left"
        at_end = stop == len(data)
        return damage(data, start, stop, reasons.TORN if at_end else reasons.HEADER, detail)
    if not check_crc(data, header, start):
        if header.magic == 2:
            found = checksum.crc32c(data[start + CRC_START : start + header.length_bytes])
        else:
            found = zlib.crc32(data[start + LEGACY_CRC_START : start + header.length_bytes])
        detail = f"the checksum is {found:#010x}, the header has {header.crc:#010x}"
        return damage(data, start, stop, reasons.CRC, detail, header.base_offset)
    detail = f"offset {header.base_offset}, {header.record_count} records"
    return damage(data, start, stop, reasons.HEADER, detail)
