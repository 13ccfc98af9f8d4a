"""Reading and changing record batches, for tests of every layer."""

from coterie.protocol import checksum
from coterie.protocol.record_batch_layout import CRC, CRC_AT, CRC_START
from coterie.protocol.records import decode_pairs, iterate_batches
from coterie.storage.batches import place

Pair = tuple[bytes | None, bytes | None]


def pairs_in(data: bytes) -> list[Pair]:
    """Return keys and values of all records in whole batches."""
    return [
        pair
        for position, header in iterate_batches(data)
        for pair in decode_pairs(data, header, position)
    ]


def with_offset(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return one batch with another base offset and leader epoch."""
    data, _ = place(batch, base_offset, leader_epoch)
    return data


def with_right_crc(batch: bytes | bytearray) -> bytes:
    """Return one batch with the CRC of its present contents."""
    out = bytearray(batch)
    CRC.pack_into(out, CRC_AT, checksum.crc32c(bytes(out[CRC_START:])))
    return bytes(out)
