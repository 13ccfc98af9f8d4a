"""What a fetch of a share group reads of the log of a partition."""

from typing import NamedTuple

from coterie.coordinator.share_partition.acquisition import AcquiredRecords, LogBatch
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.records import iterate_batches
from coterie.server.config.share_leaders import BY_DURATION, EARLIEST, ShareSettings
from coterie.server.logs.partition import Partition
from coterie.storage.aborted_transactions import AbortedTransaction


class Found(NamedTuple):
    """What was read.

    Attributes:
        offset: where reading began.
        data: whole batches.
        batches: their offsets.
        aborted: those of them that belong to aborted transactions, if these are not to be seen.
    """

    offset: int
    data: bytes
    batches: list[LogBatch]
    aborted: list[LogBatch]


def read(
    partition: Partition, offset: int, max_bytes: int, *, is_limited: bool, is_committed: bool
) -> Found:
    """Read from an offset to the high watermark, or to the last stable offset.

    Args:
        partition: the partition, which is open.
        offset: where to begin.
        max_bytes: how much to read.
        is_limited: whether that counts for the first batch, too.
        is_committed: whether only records of committed transactions are to be seen.

    Raises:
        StorageError, OSError: the log cannot be read.
    """
    log, end = partition.log, partition.high_watermark
    aborted: list[AbortedTransaction] = []
    if offset >= end:
        return Found(offset, b"", [], [])
    if is_committed:
        data, aborted = log.read_committed(offset, max_bytes)
    else:
        data = log.read(offset, max_bytes)
    if is_limited and len(data) > max_bytes:
        return Found(offset, b"", [], [])
    headers = [
        (position, header) for position, header in iterate_batches(data) if header.base_offset < end
    ]
    batches = [LogBatch(header.base_offset, header.last_offset) for _, header in headers]
    hidden = [
        LogBatch(header.base_offset, header.last_offset)
        for _, header in headers
        if any(_belongs(header, each) for each in aborted)
    ]
    return Found(offset, data, batches, hidden)


def _belongs(header: BatchHeader, transaction: AbortedTransaction) -> bool:
    """Return whether a batch has records of a transaction; its marker is none of them."""
    producer_id, first_offset, last_offset, _ = transaction
    return (
        header.is_transactional
        and not header.is_control
        and header.producer_id == producer_id
        and first_offset <= header.base_offset <= last_offset
    )


def records_of(found: Found, acquired: list[AcquiredRecords]) -> bytes:
    """Return the batches that acquired records are in, from the first to the last of them."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    begin = end = 0
    for position, header in iterate_batches(found.data):
        if header.last_offset < first:
            continue
        if header.base_offset > last:
            break
        if not end:
            begin = position
        end = position + header.length_bytes
    return found.data[begin:end]


def first_offset(partition: Partition, settings: ShareSettings, now_ms: int) -> int | None:
    """Return where a share group begins to read a partition; None if it is to wait for that.

    Source: [share-partitions/offset-reset].
    """
    log = partition.log
    if settings.reset == EARLIEST:
        return log.log_start_offset
    if settings.reset == BY_DURATION:
        found = log.offset_for_timestamp(now_ms - settings.reset_ms)
        return None if found is None else found[1]
    return partition.high_watermark
