"""Batches of idempotent and transactional producers, for tests of logs."""

from coterie.protocol.control_records import encode_marker
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.records import Record, encode_records
from coterie.storage.log import Log
from coterie.storage.producer_state import ProducerState

NOW_MS = 1_795_000_000_000
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


def header(
    *,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    records: int = 1,
    attributes: int = 0,
    timestamp_ms: int = NOW_MS,
    base_offset: int = 0,
) -> BatchHeader:
    """Return the header of a batch that is never read."""
    return BatchHeader(
        base_offset=base_offset,
        length_bytes=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=records - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=records,
    )


def produced(
    sequence: int,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    records: int = 1,
    timestamp_ms: int = NOW_MS,
    transactional: bool = False,
    key: bytes = b"k",
    value: bytes = b"v",
) -> bytes:
    """Return a batch with data."""
    return encode_records(
        [Record(offset, timestamp_ms, key, value) for offset in range(records)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def end_transaction(
    log: Log, *, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0
) -> None:
    """Append a marker."""
    offset = log.log_end_offset
    log.append(
        encode_marker(
            offset, NOW_MS, producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch
        ),
        NOW_MS,
    )


def append(state: ProducerState, batch: BatchHeader, seen_ms: int) -> None:
    """Note a batch with data."""
    state.add(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_offset_delta,
        batch.base_offset,
        batch.max_timestamp_ms,
        seen_ms,
        is_transactional=batch.is_transactional,
    )
