"""Reading and changing record batches, for tests of every layer."""

from coterie.protocol import checksum
from coterie.protocol.record_batch_layout import (
    CONTROL,
    CRC,
    CRC_AT,
    CRC_START,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from coterie.protocol.record_reader import ABORT, COMMIT, MARKER_KEY, MARKER_VALUE
from coterie.protocol.records import decode_pairs, encode_batch, iterate_batches
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


def encode_marker(
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Return the control batch that ends a transaction [record-batch/control-batches]."""
    key = MARKER_KEY.pack(0, COMMIT if commit else ABORT)
    return encode_batch(
        [(key, MARKER_VALUE.pack(0, coordinator_epoch))],
        base_offset,
        timestamp_ms,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
    )


def with_right_crc(batch: bytes | bytearray) -> bytes:
    """Return one batch with the CRC of its present contents."""
    out = bytearray(batch)
    CRC.pack_into(out, CRC_AT, checksum.crc32c(bytes(out[CRC_START:])))
    return bytes(out)
