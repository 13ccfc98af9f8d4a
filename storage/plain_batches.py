"""Plain batches, recognised by their layout: the fast path of both halves of a cleaning.

Nearly all of a coordinator's log is batches without attributes and producer, whose records have
short keys, values and no headers, and most look like one met before: as long, with keys and values
at the same places. `PlainBatches` learns such layouts. A run of batches with one layout is taken
apart by one `unpack` for each, and all bytes of it are held against the layout but leader epoch,
timestamps, keys and values.

Invariant: `take` tells of a batch what `split_records` would, or nothing. Whatever it does not know
goes the slow way, which lets it learn.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.protocol import checksum
from coterie.protocol.raw_records import split_records
from coterie.protocol.record_batch import CRC_START, HEADER_BYTES, BatchHeader
from coterie.protocol.varints import read_varint
from coterie.storage.offset_map import MAX_WHOLE_KEY_BYTES
from coterie.storage.scan import BadBatch

# Base offset, length, magic, CRC, attributes and last offset delta, timestamps; then producer,
# sequence, record count, and what stands in front of the first key.
_FRONT = ">qi4xbI6s16x"
_FRONT_BYTES = struct.calcsize(_FRONT)
# By what a layout is looked up: length, attributes and last offset delta, and from the producer to
# the first key's length or one byte further.
_SHAPE = struct.Struct(">8xi9x6s16x24s")
# Longer batches are rare, and what they bring to the map is counted record by record.
_MAX_RECORDS = 256
# What all layouts together may cost, one for a record and some for each layout: below 4 MiB.
_BUDGET = 16_384
_LAYOUT_COST = 4
# No slice has so many batches.
_ALL = 1 << 62


class Run(NamedTuple):
    """Neighbouring batches of one layout.

    Attributes:
        stop: where the next batch begins.
        next_offset: the offset after the last of them.
        batch_bytes: the length of each.
        batch_records: how many records each has.
        keys: of all of them, in order.
    """

    stop: int
    next_offset: int
    batch_bytes: int
    batch_records: int
    keys: list[bytes]

    def batches(self, at: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Where each batch begins, the first at `at`, and its keys."""
        by_batch = zip(*[iter(self.keys)] * self.batch_records, strict=True)
        return zip(range(at, self.stop, self.batch_bytes), by_batch, strict=True)

    def kept_facts(self, batches: bytes) -> Iterator[tuple[Any, ...]]:
        """Base offset, last offset delta and maximum timestamp of some of the batches."""
        return struct.iter_unpack(f">q15xi8xq{self.batch_bytes - 43}x", batches)


class _Layout(NamedTuple):
    """What is the same in all batches of a layout.

    Attributes:
        unpack: base offset, length, magic, CRC; attributes and last offset delta; then for each
            record what is in front of its key, the key, and the bytes of its value's length; at
            last the last record's header count.
        batch_bytes: how long a batch is.
        length: what the length field says of that.
        attributes: those and the last offset delta.
        offsets: how many offsets a batch takes up.
        fronts: what has to be in front of the keys, and at the end.
        value_lengths: the bytes of the values' lengths.
    """

    unpack: Callable[[memoryview], Iterator[tuple[Any, ...]]]
    batch_bytes: int
    length: int
    attributes: bytes
    offsets: int
    fronts: tuple[bytes, ...]
    value_lengths: tuple[bytes, ...]


class PlainBatches:
    """The layouts that were met so far."""

    def __init__(self) -> None:
        """Nothing has been met."""
        # None stands for batches that are not plain.
        self._known: dict[tuple[int, bytes, bytes], _Layout | None] = {}
        self._budget = _BUDGET

    def take(
        self,
        view: memoryview,
        at: int,
        offsets: range,
        *,
        position: int | None,
        most: int = _ALL,
    ) -> Run | None:
        """The batches of one layout from `at` on; None if the first is not known to be plain.

        Args:
            view: a slice.
            at: where a batch begins in it.
            offsets: those that batches may have, from the first one's least base offset on.
            position: where the slice begins in its file, to name bad batches; None where checksums
                have been looked at before.
            most: so many batches at most.

        Raises:
            BadBatch: a checksum is wrong.
        """
        if at + _SHAPE.size > len(view):
            return None
        layout = self._known.get(_SHAPE.unpack_from(view, at))
        if layout is None:
            return None
        batches = min((len(view) - at) // layout.batch_bytes, most)
        part = view[at : at + batches * layout.batch_bytes]
        records = len(layout.value_lengths)
        take = _take_single if records == 1 else _take_several
        keys, next_offset = take(part, layout, offsets, None if position is None else position + at)
        if not keys:
            return None
        stop = at + len(keys) // records * layout.batch_bytes
        return Run(stop, next_offset, layout.batch_bytes, records, keys)

    def learn(self, buffer: bytes, header: BatchHeader, at: int) -> None:
        """Remember the layout of the batch at `at`, which is whole, if it is plain.

        Raises:
            MalformedFrame: the batch does not hold the records that it claims.
        """
        if (
            header.magic != 2
            or header.attributes
            or header.producer_id >= 0
            or not 0 < header.record_count <= _MAX_RECORDS
            or self._budget < header.record_count + _LAYOUT_COST
            or header.length_bytes < _SHAPE.size
        ):
            return
        shape = _SHAPE.unpack_from(buffer, at)
        if shape not in self._known:
            self._budget -= header.record_count + _LAYOUT_COST
            self._known[shape] = _layout(buffer, header, at)


def _layout(buffer: bytes, header: BatchHeader, at: int) -> _Layout | None:
    """The layout of a batch; None if it is not plain."""
    start, end = at + HEADER_BYTES, at + header.length_bytes
    pattern = [_FRONT]
    fronts, value_lengths = [], []
    # In front of the first key stands the header's end too, and in front of every other one the
    # header count of the record before.
    front_at = at + _FRONT_BYTES
    for record in split_records(buffer, start, end, header.record_count):
        _, stop, _, _, rest, key, has_value = record
        if key is None or len(key) > MAX_WHOLE_KEY_BYTES or not has_value:
            return None
        _, key_at = read_varint(buffer, rest)
        _, key_at = read_varint(buffer, key_at)
        length_at = key_at + len(key)
        size, value_at = read_varint(buffer, length_at)
        if value_at + size + 1 != stop or buffer[stop - 1]:
            return None
        pattern.append(f"{key_at - front_at}s{len(key)}s{value_at - length_at}s{size}x")
        fronts.append(buffer[front_at:key_at])
        value_lengths.append(buffer[length_at:value_at])
        front_at = stop - 1
    pattern.append("1s")
    fronts.append(buffer[front_at:end])
    length, attributes, _ = _SHAPE.unpack_from(buffer, at)
    return _Layout(
        struct.Struct("".join(pattern)).iter_unpack,
        header.length_bytes,
        length,
        attributes,
        header.last_offset_delta + 1,
        tuple(fronts),
        tuple(value_lengths),
    )


def _take_single(
    part: memoryview, layout: _Layout, offsets: range, position: int | None
) -> tuple[list[bytes], int]:
    """The keys of batches of one record, and the offset after them; `position` is to name bad
    ones, None if they are not to be checked."""
    unpack, size, wanted_length, wanted_attributes, step, fronts, (wanted_value,) = layout
    (wanted_front, _), crc32c = fronts, checksum.crc32c
    keys: list[bytes] = []
    expected_offset, at = offsets.start, CRC_START
    greatest_offset = offsets.stop - step
    for base_offset, length, magic, crc, attributes, front, key, value, none in unpack(part):
        if (
            front != wanted_front or length != wanted_length or value != wanted_value
            or attributes != wanted_attributes or magic != 2 or none != b"\0"
            or not expected_offset <= base_offset <= greatest_offset
        ):  # fmt: skip
            break
        if position is not None and crc32c(part[at : at + size - CRC_START]) != crc:
            raise BadBatch(position + at - CRC_START, f"the checksum is not {crc:#010x}")
        keys.append(key)
        expected_offset = base_offset + step
        at += size
    return keys, expected_offset


def _take_several(
    part: memoryview, layout: _Layout, offsets: range, position: int | None
) -> tuple[list[bytes], int]:
    """As `_take_single`, of batches of several records."""
    unpack, size, wanted_length, wanted_attributes, step, fronts, value_lengths = layout
    crc32c = checksum.crc32c
    keys: list[bytes] = []
    expected_offset, at = offsets.start, CRC_START
    greatest_offset = offsets.stop - step
    for found in unpack(part):
        base_offset, length, magic, crc, attributes = found[:5]
        if (
            found[5::3] != fronts or length != wanted_length or found[7::3] != value_lengths
            or attributes != wanted_attributes or magic != 2
            or not expected_offset <= base_offset <= greatest_offset
        ):  # fmt: skip
            break
        if position is not None and crc32c(part[at : at + size - CRC_START]) != crc:
            raise BadBatch(position + at - CRC_START, f"the checksum is not {crc:#010x}")
        keys += found[6::3]
        expected_offset = base_offset + step
        at += size
    return keys, expected_offset
