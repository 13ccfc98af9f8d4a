"""Finding the batches in a piece of a log: where each begins, whether it is whole and undamaged.

Stepping from length to length is the one sequential part of decoding; everything about the headers
is then checked for all batches at once. Four things about a batch stand outside its checksum: base
offset, leader epoch, magic and length. A wrong magic or length makes the checksum disagree; offsets
and epochs are compared with those of the neighbours (`order.py`).

After damage decoding goes on at the next batch that is whole: at the place that the damaged one's
length points to if one begins there, else at the first byte where a header with a right checksum
is found.
"""

import struct
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
from coterie.protocol.records import check_crc, read_header

# The shortest thing that may stand in a log: a message of magic 0 without key and value.
MIN_BATCH_BYTES = 26
# No batch is longer: storage/scan.py has the same limit and the reason.
MAX_BATCH_BYTES = 256 << 20
HEADER_BYTES = 61
PREFIX_BYTES = 12
_MIN_LEGACY_BYTES = (26, 34)
_CRC_START = 21
_NO_EPOCH = -1
_LENGTH = struct.Struct(">i")
# How far a search for the next batch looks at once.
_SEARCH_BYTES = 64 << 10

# The header of magic 2 (KIP-98), as it lies in the file.
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", ">i1"),
        ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"), ("max_timestamp_ms", ">i8"), ("producer_id", ">i8"),
        ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4"),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batches:
    """The headers of batches, one array a field; positions count from the buffer's first byte."""

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
        """The last offset of each."""
        return self.base_offset + self.last_offset_delta

    def chosen(self, index: npt.NDArray[np.generic] | slice) -> "Batches":
        """Those that a mask, a slice or an index array picks."""
        return Batches(*(getattr(self, name)[index] for name in BATCH_FIELDS))


BATCH_FIELDS = tuple(field.name for field in fields(Batches))


class Framed(NamedTuple):
    """The batches of a piece, what was damaged in it, and where the next piece has to begin.

    `torn` tells that the piece ends within a batch, or in bytes after which no batch is found.
    """

    batches: Batches
    damages: list[Damage]
    consumed: int
    torn: bool


def frame(buffer: Buffer, *, final: bool, crc: bool = True) -> Framed:
    """The batches of a piece that begins with a batch.

    Args:
        buffer: a piece of a log file, from the first byte of a batch on.
        final: whether nothing comes after it. What is then left over is damage (`torn`); before
            the end it is left for the next piece, together with the bytes that follow.
        crc: whether to compute checksums.
    """
    data, end = buffer.data, len(buffer)
    runs: list[Batches] = []
    damages: list[Damage] = []
    position = 0
    torn = False
    while position < end:
        starts, stop = _hop(data, position, end)
        batches = _headers(buffer, np.array(starts, np.int64))
        sound = _sound(data, batches, crc=crc)
        taken, position = _take(data, batches, sound, stop, damages)
        runs.append(taken)
        if position == end:
            break
        if position == stop and not final and _is_cut_off(data, position, end):
            torn = True
            break
        found = _next_sound(data, position + 1, end)
        if found is None:
            torn = True
            if final:
                damages.append(_unusable(data, position, end))
                position = end
            break
        damages.append(_unusable(data, position, found))
        position = found
    return Framed(joined(runs), damages, position, torn)


def joined(runs: list[Batches]) -> Batches:
    """Several runs of batches as one."""
    if len(runs) == 1:
        return runs[0]
    if not runs:
        return Batches(*(np.zeros(0, np.int64) for _ in BATCH_FIELDS))
    return Batches(*(np.concatenate([getattr(run, name) for run in runs]) for name in BATCH_FIELDS))


def _hop(data: bytes, position: int, end: int) -> tuple[list[int], int]:
    """Where batches begin if every length is right, and where the last one of them ends."""
    starts: list[int] = []
    unpack = _LENGTH.unpack_from
    add = starts.append
    last = end - PREFIX_BYTES
    shortest = MIN_BATCH_BYTES - PREFIX_BYTES
    while position <= last:
        (length,) = unpack(data, position + 8)
        if length < shortest:
            return starts, position
        add(position)
        position += length + PREFIX_BYTES
    if position > end:
        # The last one is cut off: only its beginning is here.
        position = starts.pop()
    return starts, position


def _headers(buffer: Buffer, position: Int64s) -> Batches:
    """The headers at the positions; those of magic 0 and 1 in the same shape (record_batch.py)."""
    headers = buffer.read_as(_HEADER, position)
    read = {name: headers[name].astype(np.int64) for name in _HEADER.names or ()}
    length = read.pop("length") + PREFIX_BYTES
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


def _sound(data: bytes, batches: Batches, *, crc: bool) -> Bools:
    """Which headers are possible, and with `crc` which batches have the checksum they claim."""
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
    view = memoryview(data)
    checksum.crc32c(b"")  # the first call binds the compiled function
    starts = (batches.position + _CRC_START).tolist()
    stops = (batches.position + batches.length_bytes).tolist()
    # No line of Python runs for a batch here.
    bodies = map(view.__getitem__, map(slice, starts, stops))
    computed = np.fromiter(map(checksum.crc32c, bodies), np.int64, len(starts))
    same = computed == batches.crc
    for index in np.flatnonzero(right & ~modern):
        position = int(batches.position[index])
        same[index] = check_crc(data, read_header(data, position), position)
    right &= same
    return right


def _take(
    data: bytes, batches: Batches, sound: Bools, stop: int, damages: list[Damage]
) -> tuple[Batches, int]:
    """The sound batches of a chain, and where the chain can't be followed any further.

    A damaged batch whose length leads to a sound one is damage of exactly its own bytes.
    """
    if sound.all():
        return batches, stop
    count = len(batches)
    for index in np.flatnonzero(~sound).tolist():
        start = int(batches.position[index])
        if index + 1 == count or not sound[index + 1]:
            keep = sound.copy()
            keep[index:] = False
            return batches.chosen(keep), start
        damages.append(_unusable(data, start, int(batches.position[index + 1])))
    return batches.chosen(sound), stop


def _is_cut_off(data: bytes, position: int, end: int) -> bool:
    """Whether what begins here may be a batch whose rest is missing."""
    if end - position < HEADER_BYTES:
        # Zeros are what a file system leaves where data was never written.
        return True
    try:
        header = read_header(data, position)
    except MalformedFrame:
        return False
    return end - position < header.length_bytes <= MAX_BATCH_BYTES


def _next_sound(data: bytes, position: int, end: int) -> int | None:
    """The first position from here on where a batch of magic 2 stands with a right checksum."""
    while position + HEADER_BYTES <= end:
        window = np.frombuffer(data, np.uint8, min(_SEARCH_BYTES, end - position - 16), position)
        piece = Buffer(data[position : position + _SEARCH_BYTES + HEADER_BYTES])
        at = np.arange(min(len(window), len(piece) - HEADER_BYTES + 1), dtype=np.int64)
        at = at[piece.octets[at + 16] == 2]
        length = piece.read(">i4", at + 8) + PREFIX_BYTES
        possible = (length >= HEADER_BYTES) & (length <= end - position - at)
        possible &= (piece.read(">i8", at) >= 0) & (piece.read(">i4", at + 23) >= 0)
        for candidate in at[possible].tolist():
            if check_crc(data, read_header(data, position + candidate), position + candidate):
                return int(position + candidate)
        position += _SEARCH_BYTES
    return None


def _unusable(data: bytes, start: int, stop: int) -> Damage:
    """The damage of what begins at `start`, called by the first thing that is wrong with it."""
    if not any(data[start:stop]):
        return damage(data, start, stop, reasons.TORN, "zeros: nothing was written here")
    try:
        header = read_header(data, start)
    except MalformedFrame as error:
        cut = stop == len(data) and stop - start < HEADER_BYTES
        return damage(data, start, stop, reasons.TORN if cut else reasons.HEADER, str(error))
    if start + header.length_bytes > stop:
        detail = f"{header.length_bytes} bytes are claimed where {stop - start} are left"
        at_end = stop == len(data)
        return damage(data, start, stop, reasons.TORN if at_end else reasons.HEADER, detail)
    if not check_crc(data, header, start):
        view = memoryview(data)
        if header.magic == 2:
            found = checksum.crc32c(view[start + _CRC_START : start + header.length_bytes])
        else:
            found = zlib.crc32(view[start + 16 : start + header.length_bytes])
        detail = f"the checksum is {found:#010x}, the header says {header.crc:#010x}"
        return damage(data, start, stop, reasons.CRC, detail, header.base_offset)
    detail = f"offset {header.base_offset}, {header.record_count} records"
    return damage(data, start, stop, reasons.HEADER, detail)
