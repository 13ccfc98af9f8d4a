"""Learned layouts: how runs of batches that look like an earlier one are read at once.

Nearly all batches of a group log are plain: without attributes and producer, with short keys, with
values and without headers. Most of them have the same lengths at the same places as an earlier
batch. Such a layout is learned from one batch and compiled into one struct, which then reads a run
of batches that have it.

This module learns. `newest_records.py` reads keys and values with it, for a load;
`storage/key_runs.py` reads keys, for the two passes of compaction. Both return what `split_records`
would return, or nothing: every byte of a batch is compared with its layout, except leader epoch,
timestamps, keys and values (and in a load, which reads checked batches, offsets and CRC).
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from coterie.protocol.raw_records import split_records
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.record_batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    PRODUCER_ID_AT,
    header_format,
)

# Longer keys are not plain: the length of a key has to be one byte.
MAX_KEY_BYTES = 63
# The first bytes of a key in a group log are the type of the record.
TYPE_BYTES = 2

# Every struct begins with the fields of the header that are compared or returned; attributes and
# last offset delta are compared as they are, and timestamps are skipped.
_ATTRIBUTES_AND_DELTA = f"{BASE_TIMESTAMP_AT - ATTRIBUTES_AT}s{PRODUCER_ID_AT - BASE_TIMESTAMP_AT}x"
KEYS_FRONT = header_format("base_offset", "length", "magic", "crc") + _ATTRIBUTES_AND_DELTA
PAIRS_FRONT = (
    header_format("length", "magic") + f"{ATTRIBUTES_AT - CRC_AT}x" + _ATTRIBUTES_AND_DELTA
)
# A layout is looked up by some of the bytes that it fixes: length, magic, attributes, last offset
# delta, and everything from the producer to the length of the first key or one byte further.
LOOKUP_TAIL_BYTES = 24
LOOKUP = struct.Struct(f"{PAIRS_FRONT}{LOOKUP_TAIL_BYTES}s")
Lookup = tuple[int, int, bytes, bytes]
# Batches that agree in those bytes may differ behind the first key. So many layouts are tried.
_MAX_VARIANTS = 4
# Longer batches are rare.
_MAX_RECORDS = 256
# The bound of what all layouts together may cost, 4 MiB for keys and 6 MiB for pairs: one for each
# record and some for each layout.
_BUDGET = 16_384
_LAYOUT_COST = 4


class Layout(NamedTuple):
    """What is the same in all batches of one layout.

    Attributes:
        unpack: reads one batch. Behind the fields in front come, for each record, the bytes before
            its key, the key, the bytes of the value's length and, for a load, the value; at last
            the number of headers of the last record.
        unpack_run: the same for neighbouring batches.
        batch_bytes: the length of a batch.
        length: its length field.
        attributes: attributes and last offset delta, as bytes.
        offsets: how many offsets a batch has.
        fronts: the bytes before each key, and the last number of headers.
        value_lengths: the lengths of the values, as bytes.
        key_type: the first bytes of the first key.
    """

    unpack: Callable[[memoryview, int], tuple[Any, ...]]
    unpack_run: Callable[[memoryview], Iterator[tuple[Any, ...]]]
    batch_bytes: int
    length: int
    attributes: bytes
    offsets: int
    fronts: tuple[bytes | int, ...]
    value_lengths: tuple[bytes, ...]
    key_type: bytes


class Layouts:
    """The layouts that were learned, by the bytes of `LOOKUP`."""

    # How the struct begins, and what it does with values: "s" reads them, "x" skips them.
    front: ClassVar[str]
    value_character: ClassVar[str]

    def __init__(self) -> None:
        """Nothing is known yet."""
        # None stands for a batch that was not plain. It counts as a variant too, so that such
        # batches are not examined again and again.
        self.known: dict[Lookup | None, list[Layout | None]] = {}
        self._budget = _BUDGET

    def learn(self, buffer: bytes, header: BatchHeader, at: int) -> None:
        """Remember the layout of a batch, if it is plain.

        Args:
            buffer: contains the whole batch.
            header: of the batch.
            at: where the batch begins.

        Raises:
            MalformedFrame: the batch does not hold the records that it claims.
        """
        cost = header.record_count + _LAYOUT_COST
        if (
            header.magic != 2
            or header.attributes
            or header.producer_id >= 0
            or not 0 < header.record_count <= _MAX_RECORDS
            or self._budget < cost
            or header.length_bytes < LOOKUP.size
        ):
            return
        lookup = LOOKUP.unpack_from(buffer, at)
        variants = self.known.setdefault(lookup, [])
        if len(variants) >= _MAX_VARIANTS:
            return
        layout, pattern = self._layout(buffer, header, at)
        if any(_are_same(known, layout) for known in variants):
            return
        self._budget -= cost
        variants.append(layout)
        if layout is not None:
            self.learned(lookup, layout, pattern)

    def learned(self, lookup: Lookup, layout: Layout, pattern: str) -> None:
        """Take note of a new layout. A subclass may have a faster way to read some of them.

        Args:
            lookup: the bytes by which it is looked up.
            layout: the layout.
            pattern: the struct format of the records, from the producer's id on.
        """

    def _layout(self, buffer: bytes, header: BatchHeader, at: int) -> tuple[Layout | None, str]:
        """Return the layout of a batch, None if it is not plain, and the format of its records."""
        pattern: list[str] = []
        fronts: list[bytes | int] = []
        value_lengths: list[bytes] = []
        key_type = b""
        # The first key is preceded by the end of the header, every other one by the number of
        # headers of the record before it.
        front_at = at + PRODUCER_ID_AT
        for _, stop, _, _, _, key_at, key_bytes, value_at, value_bytes in split_records(
            buffer, at + HEADER_BYTES, at + header.length_bytes, header.record_count
        ):
            if not 0 <= key_bytes <= MAX_KEY_BYTES or value_bytes < 0:
                return None, ""
            if value_at + value_bytes + 1 != stop or buffer[stop - 1]:
                return None, ""
            length_at = key_at + key_bytes
            pattern.append(
                f"{key_at - front_at}s{key_bytes}s{value_at - length_at}s"
                f"{value_bytes}{self.value_character}"
            )
            if not fronts:
                key_type = buffer[key_at:length_at][:TYPE_BYTES]
            fronts.append(buffer[front_at:key_at])
            value_lengths.append(buffer[length_at:value_at])
            front_at = stop - 1
        pattern.append("B")
        fronts.append(buffer[front_at])
        length, _, attributes, _ = LOOKUP.unpack_from(buffer, at)
        batch = struct.Struct(self.front + "".join(pattern))
        layout = Layout(
            batch.unpack_from,
            batch.iter_unpack,
            header.length_bytes,
            length,
            attributes,
            header.last_offset_delta + 1,
            tuple(fronts),
            tuple(value_lengths),
            key_type,
        )
        return layout, "".join(pattern)


def _are_same(first: Layout | None, second: Layout | None) -> bool:
    """Return whether two layouts that are looked up by the same bytes are one."""
    if first is None or second is None:
        return first is second
    return (first.fronts, first.value_lengths) == (second.fronts, second.value_lengths)
