"""Giving batches their offsets: the step between what was produced and what is written."""

import struct

# Base offset, length, leader epoch, magic, last offset delta, maximum timestamp.
_FIELDS = struct.Struct(">qiib6xi8xq")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_PREFIX_BYTES = 12


# What the indexes and the end of a log need to know of a batch: its position in the file (or in the
# bytes of an append), its length in bytes, its first and last offset, its greatest timestamp in ms.
# A bare tuple, because one is made for every batch of a log at start and for every one appended.
BatchFacts = tuple[int, int, int, int, int]


def place(batches: bytes, next_offset: int, leader_epoch: int) -> tuple[bytes, list[BatchFacts]]:
    """Batches with consecutive offsets from `next_offset` on, and where each of them stands.

    Bytes that have the right offsets and epoch already, as the coordinator's own have, are not
    copied. Both fields are outside of what the CRC covers.
    """
    stamped: bytearray | None = None
    placed = []
    position, end = 0, len(batches)
    while position < end:
        base_offset, length, epoch, magic, last_offset_delta, max_timestamp_ms = (
            _FIELDS.unpack_from(batches, position)
        )
        assert magic == 2, "only batches of magic 2 are appended"
        if base_offset != next_offset or epoch != leader_epoch:
            if stamped is None:
                stamped = bytearray(batches)
            _INT64.pack_into(stamped, position, next_offset)
            _INT32.pack_into(stamped, position + _PREFIX_BYTES, leader_epoch)
        length += _PREFIX_BYTES
        last_offset = next_offset + last_offset_delta
        placed.append((position, length, next_offset, last_offset, max_timestamp_ms))
        next_offset = last_offset + 1
        position += length
    assert position == end, "an append is whole batches"
    assert placed, "an append has at least one batch"
    return batches if stamped is None else bytes(stamped), placed
