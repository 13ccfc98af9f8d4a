"""The transactions in the dirty part of a log: which were aborted, and which are open.

Kafka lists aborted transactions beside each segment (`.txnindex`). Here the cleaner finds them
itself: it reads the headers of the dirty part once, from the first transactional batch on, and
remembers where each aborted transaction began and ended [compaction/aborted-transactions]. A log
without transactions is not read for this.

A transaction without a marker in the dirty part is treated as open, and cleaning ends before its
first batch [compaction/open-transactions].
"""

from bisect import bisect_right

from coterie.protocol.record_batch_layout import (
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTION_FIELDS,
    TRANSACTIONAL,
)
from coterie.protocol.records import BatchHeader, decode_records, read_marker
from coterie.storage.slices import Slices, checked_header

# The most memory of an aborted transaction: two numbers in a list, and the list.
ABORTED_BYTES = 250
# So many transactions may be remembered in any case. With fewer, transactions that are open at the
# same time could keep each other from being cleaned.
MIN_TRANSACTIONS = 64


class Transactions:
    """The transactions of the dirty part. First `walk` over it, then ask for their outcome.

    Attributes:
        open: where transactions without a marker began, by producer id.
        stopped_at: the offset where the walk ended because the memory was used up, -1 if it did
            not.
    """

    def __init__(self, max_bytes: int) -> None:
        """Nothing is known yet.

        Args:
            max_bytes: the bound of the memory.
        """
        self.open: dict[int, int] = {}
        self.stopped_at = -1
        # By producer id: the offsets where aborted transactions began and where their markers are,
        # in turn and ascending.
        self._aborted: dict[int, list[int]] = {}
        self._left = max(max_bytes // ABORTED_BYTES, MIN_TRANSACTIONS)

    @property
    def end_offset(self) -> int | None:
        """The offset before which cleaning has to end; None if there is no such offset."""
        ends = list(self.open.values())
        if self.stopped_at >= 0:
            ends.append(self.stopped_at)
        return min(ends, default=None)

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Return whether a producer's transactional batch belongs to an aborted transaction."""
        bounds = self._aborted.get(producer_id)
        return bounds is not None and bisect_right(bounds, offset) % 2 == 1

    def walk(self, slices: Slices, expected_offset: int) -> int:
        """Read the headers of the next slice.

        Args:
            slices: positioned at a batch.
            expected_offset: the least offset that the batch may have.

        Returns:
            The offset after the last batch of the slice.

        Raises:
            BadBatch: there is no batch where one should be. Only the checksums of markers are
                compared.
            MalformedFrame: a marker cannot be decoded.
        """
        buffer = slices.read()
        unpack = TRANSACTION_FIELDS.unpack_from
        at, end = 0, len(buffer)
        while at < end and self.stopped_at < 0:
            # Nearly all batches are data of magic 2, for which no header object is made.
            if end - at >= HEADER_BYTES:
                base_offset, length, magic, attributes, delta, producer_id = unpack(buffer, at)
                length += LOG_OVERHEAD_BYTES
                if magic == 2 and not attributes & CONTROL and HEADER_BYTES <= length <= end - at:
                    if attributes & TRANSACTIONAL:
                        self._begin(producer_id, base_offset)
                    expected_offset = base_offset + delta + 1
                    at += length
                    continue
            header = checked_header(buffer, at, slices.position, expected_offset)
            if header is None:
                break
            if header.is_control:
                self._end(buffer, header, at)
            expected_offset = header.next_offset
            at += header.length_bytes
        if at:
            slices.skip(at)
        return expected_offset

    def _begin(self, producer_id: int, offset: int) -> None:
        if producer_id in self.open:
            return
        if len(self.open) >= self._left:
            self.stopped_at = offset
        else:
            self.open[producer_id] = offset

    def _end(self, buffer: bytes, header: BatchHeader, at: int) -> None:
        records = decode_records(buffer, header, at)
        marker = read_marker(records[0]) if records else None
        if records and marker is None:
            # A control record of a later Kafka, which does not end a transaction.
            return
        first_offset = self.open.pop(header.producer_id, None)
        if first_offset is None or marker is None or marker.commit:
            return
        self._left -= 1
        self._aborted.setdefault(header.producer_id, []).extend((first_offset, header.base_offset))
