"""What a fetch of a share group reads of the log of a partition."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from coterie.coordinator.share_partition.acquisition import AcquiredRecords, LogBatch
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.records import batch_extents, read_header
from coterie.server.config.share_leaders import BY_DURATION, EARLIEST, ShareSettings
from coterie.server.logs.partition import Partition
from coterie.storage.aborted_transactions import AbortedTransaction
from coterie.storage.segment_reader import MAX_OFFSET

# A first guess of the size of a record. Reading begins with so much for each record that is wanted,
# and goes on with twice as much while that was too little.
_RECORD_BYTES = 1_100
# The least and the most to read at once.
_LEAST_BYTES = 16_384
_MOST_BYTES = 1_048_576


class Extent(NamedTuple):
    """How much is to be read.

    Attributes:
        last_offset: nothing behind it is wanted but the rest of its batch.
        least_bytes: how much is read even if it is behind that.
        max_bytes: the most to read.
        is_strict: whether the first batch is not read either if it is larger.
    """

    last_offset: int
    least_bytes: int
    max_bytes: int
    is_strict: bool


class Found:
    """What was read.

    Attributes:
        offset: where reading began.
        data: whole batches.
        batches: their offsets.
        aborted: those of them that belong to aborted transactions, if these are not to be seen.
    """

    __slots__ = ("_ends", "aborted", "batches", "data", "offset")

    def __init__(self, offset: int) -> None:
        """Begin without batches."""
        self.offset = offset
        self.data = b""
        self.batches: list[LogBatch] = []
        self.aborted: list[LogBatch] = []
        # Where each batch ends in `data`.
        self._ends: list[int] = []

    def add(self, data: bytes, end_offset: int, aborted: list[AbortedTransaction]) -> None:
        """Add the batches behind those that there are, up to an offset."""
        size = len(self.data)
        self.data = self.data + data if size else data
        position = 0
        for base_offset, last_offset, end in batch_extents(data):
            if base_offset >= end_offset:
                break
            batch = LogBatch(base_offset, last_offset)
            self.batches.append(batch)
            self._ends.append(size + end)
            if aborted:
                header = read_header(data, position)
                if any(_belongs(header, each) for each in aborted):
                    self.aborted.append(batch)
            position = end

    def records_of(self, acquired: Sequence[AcquiredRecords]) -> bytes:
        """Return the batches that acquired records are in, from the first to the last of them."""
        first = bisect_left(self.batches, acquired[0].first_offset, key=_last_offset)
        last = bisect_right(self.batches, acquired[-1].last_offset, key=_base_offset)
        begin = self._ends[first - 1] if first else 0
        return self.data[begin : self._ends[last - 1] if last else 0]


_base_offset, _last_offset = attrgetter("base_offset"), attrgetter("last_offset")


def read(partition: Partition, offset: int, extent: Extent, *, is_committed: bool) -> Found:
    """Read from an offset to the high watermark, or to the last stable offset.

    A log may have much more than a fetch can acquire, so that is not read.

    Args:
        partition: the partition, which is open.
        offset: where to begin.
        extent: how much to read.
        is_committed: whether only records of committed transactions are to be seen.

    Raises:
        StorageError, OSError: the log cannot be read.
    """
    log, end = partition.log, partition.high_watermark
    found = Found(offset)
    wanted = extent.last_offset - offset + 1
    chunk_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, wanted * _RECORD_BYTES))
    while offset < end:
        left_bytes = extent.max_bytes - len(found.data)
        # What is read is what the answer has then, nearly always, and is not copied for it.
        last_offset = extent.last_offset if offset <= extent.last_offset else MAX_OFFSET
        aborted: list[AbortedTransaction] = []
        if is_committed:
            data, aborted = log.read_committed(offset, min(chunk_bytes, left_bytes), last_offset)
        else:
            data = log.read(offset, min(chunk_bytes, left_bytes), last_offset)
        is_strict = extent.is_strict or bool(found.data)
        if not data or (is_strict and len(data) > left_bytes):
            break
        known = len(found.batches)
        found.add(data, end, aborted)
        if len(found.batches) == known:
            break
        offset = found.batches[-1].last_offset + 1
        is_enough = len(found.data) >= extent.least_bytes
        if (offset > extent.last_offset and is_enough) or len(found.data) >= extent.max_bytes:
            break
        chunk_bytes = min(_MOST_BYTES, 2 * chunk_bytes)
    return found


def _belongs(header: BatchHeader, transaction: AbortedTransaction) -> bool:
    """Return whether a batch has records of a transaction; its marker is none of them."""
    producer_id, first_offset, last_offset, _ = transaction
    return (
        header.is_transactional
        and not header.is_control
        and header.producer_id == producer_id
        and first_offset <= header.base_offset <= last_offset
    )


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
