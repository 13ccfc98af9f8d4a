"""Runs of plain batches and their keys: the fast way through a log for both passes of compaction.

A run is a number of neighbouring batches that have one learned layout (`protocol/layouts.py`).
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.protocol import checksum
from coterie.protocol.layouts import KEYS_FRONT, LOOKUP, Layout, Layouts
from coterie.protocol.record_batch_layout import CRC_START, OFFSETS_AND_TIME

# More batches than any slice has.
_ALL = 1 << 62


class Run(NamedTuple):
    """Neighbouring batches of one layout.

    Attributes:
        stop: where the next batch begins.
        next_offset: the offset after the last batch.
        batch_bytes: the length of each batch.
        batch_records: the number of records in each batch.
        keys: of all records, in order.
    """

    stop: int
    next_offset: int
    batch_bytes: int
    batch_records: int
    keys: list[bytes]

    def batches(self, at: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Yield the position of each batch and its keys; the first batch begins at `at`."""
        keys_of_batches = zip(*[iter(self.keys)] * self.batch_records, strict=True)
        return zip(range(at, self.stop, self.batch_bytes), keys_of_batches, strict=True)

    def offsets_and_times(self, batches: bytes) -> Iterator[tuple[Any, ...]]:
        """Yield base offset, last offset delta and maximum timestamp of some of the batches."""
        rest = self.batch_bytes - OFFSETS_AND_TIME.size
        return struct.iter_unpack(f"{OFFSETS_AND_TIME.format}{rest}x", batches)


class KeyLayouts(Layouts):
    """The layouts that a compaction has met: reads the keys of plain batches."""

    front = KEYS_FRONT
    value_character = "x"

    def take(
        self, buffer: bytes, at: int, offsets: range, *, check_crc: bool, most: int = _ALL
    ) -> Run | None:
        """Return the batches of one layout from `at` on; None if the first has no known layout.

        The run also ends before a batch with a wrong checksum. So a damaged batch is always the
        first one of a call, which returns None, and the caller examines it.

        Args:
            buffer: contains whole batches and perhaps a part of one at its end.
            at: where a batch begins.
            offsets: the offsets that batches may have, from the least base offset of the first.
            check_crc: whether to compute checksums.
            most: the greatest number of batches to take.
        """
        if at + LOOKUP.size > len(buffer):
            return None
        for layout in self.known.get(LOOKUP.unpack_from(buffer, at), ()):
            if layout is None:
                continue
            size, records = layout.batch_bytes, len(layout.value_lengths)
            stop = at + min((len(buffer) - at) // size, most) * size
            take = _single_keys if records == 1 else _several_keys
            keys, next_offset = take(buffer, at, stop, layout, offsets, check_crc=check_crc)
            if keys:
                assert len(keys) % records == 0, "a run has whole batches"
                assert next_offset > offsets.start, "the batches of a run have records"
                return Run(at + len(keys) // records * size, next_offset, size, records, keys)
        return None


def _single_keys(
    buffer: bytes, start: int, stop: int, layout: Layout, offsets: range, *, check_crc: bool
) -> tuple[list[bytes], int]:
    """Return the keys of the one-record batches that have the layout, and the offset after them."""
    _, unpack, size, expected_length, expected_attributes, step, fronts, value_lengths, _ = layout
    (expected_front, _), (expected_value_length,) = fronts, value_lengths
    crc32c, covered_bytes = checksum.crc32c, size - CRC_START
    keys: list[bytes] = []
    expected_offset, at = offsets.start, start + CRC_START
    greatest_offset = offsets.stop - step
    for base_offset, length, magic, crc, attributes, front, key, value_length, headers in unpack(
        memoryview(buffer)[start:stop]
    ):
        if (
            front != expected_front or length != expected_length or magic != 2 or headers
            or value_length != expected_value_length or attributes != expected_attributes
            or not expected_offset <= base_offset <= greatest_offset
            or (check_crc and crc32c(buffer[at : at + covered_bytes]) != crc)
        ):  # fmt: skip
            break
        keys.append(key)
        expected_offset = base_offset + step
        at += size
    return keys, expected_offset


def _several_keys(
    buffer: bytes, start: int, stop: int, layout: Layout, offsets: range, *, check_crc: bool
) -> tuple[list[bytes], int]:
    """As `_single_keys`, for batches of several records."""
    _, unpack, size, expected_length, expected_attributes, step, fronts, value_lengths, _ = layout
    crc32c, covered_bytes = checksum.crc32c, size - CRC_START
    keys: list[bytes] = []
    expected_offset, at = offsets.start, start + CRC_START
    greatest_offset = offsets.stop - step
    for batch in unpack(memoryview(buffer)[start:stop]):
        base_offset, length, magic, crc, attributes = batch[:5]
        if (
            batch[5::3] != fronts or length != expected_length or magic != 2
            or batch[7::3] != value_lengths or attributes != expected_attributes
            or not expected_offset <= base_offset <= greatest_offset
            or (check_crc and crc32c(buffer[at : at + covered_bytes]) != crc)
        ):  # fmt: skip
            break
        keys += batch[6::3]
        expected_offset = base_offset + step
        at += size
    return keys, expected_offset
