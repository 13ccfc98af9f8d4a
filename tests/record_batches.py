"""Reading and changing record batches, for tests of every layer."""

from coterie.protocol import checksum
from coterie.protocol.record_batch_layout import CRC, CRC_AT, CRC_START, TRANSACTIONAL
from coterie.protocol.records import (
    decode_pairs,
    decode_records,
    iterate_batches,
    read_header,
    read_marker,
    stamp_timestamp,
)
from coterie.storage.batches import place
from coterie.storage.log import Log

Pair = tuple[bytes | None, bytes | None]


def pairs_in(data: bytes) -> list[Pair]:
    """Return keys and values of all records in whole batches."""
    return [
        pair
        for position, header in iterate_batches(data)
        for pair in decode_pairs(data, header, position)
    ]


def with_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """Return one batch with the broker's time."""
    return stamp_timestamp(batch, read_header(batch), timestamp_ms, log_append_time=True)


def with_offset(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return one batch with another base offset and leader epoch."""
    data, _, _, _ = place(batch, base_offset, leader_epoch)
    return data


def with_right_crc(batch: bytes | bytearray) -> bytes:
    """Return one batch with the CRC of its present contents."""
    out = bytearray(batch)
    CRC.pack_into(out, CRC_AT, checksum.crc32c(bytes(out[CRC_START:])))
    return bytes(out)


def committed(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    """Return the offsets of the records that a client at READ_COMMITTED hands to its user.

    A client drops the batches of a producer from the first offset of an aborted transaction to its
    marker, as Kafka's `CompletedFetch` does.
    """
    found: list[int] = []
    while True:
        data, aborted = log.read_committed(offset, max_bytes)
        if not data:
            return found
        waiting, dropped = sorted(aborted, key=lambda each: each.first_offset), set()
        for position, header in iterate_batches(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                dropped.add(waiting.pop(0).producer_id)
            records = decode_records(data, header, position)
            offset = max(offset, header.next_offset)
            if header.is_control:
                marker = read_marker(records[0]) if records else None
                if marker is not None and not marker.commit:
                    dropped.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in dropped):
                found += [record.offset for record in records]
