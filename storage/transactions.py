"""The transactions of the part of a log that is being cleaned: which were aborted, which are open.

Kafka writes the aborted ones down beside each segment (`.txnindex`). Here the cleaner finds them
itself: it walks over the headers of the dirty part once, from the first transactional batch on, and
remembers for each aborted transaction where it began and ended. A log without transactions is not
walked over.

A transaction whose marker is not in the dirty part is open as far as the cleaner can know; cleaning
ends before the first batch of the first such transaction (Kafka: before the last stable offset).
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

# What an aborted transaction takes up here, generously: two numbers in a list, and the list.
ABORTED_BYTES = 250
# Fewer that are open at once would be in the way of each other.
MIN_TRANSACTIONS = 64


class Transactions:
    """Fed with the headers of the dirty part; asked for the fate of a transactional batch then."""

    def __init__(self, max_bytes: int) -> None:
        # Where transactions without a marker began, by producer id.
        self.open: dict[int, int] = {}
        # The walk ended here, since more would not have fitted; -1 if it went to the end.
        self.stopped_at = -1
        # By producer id: where aborted transactions began and where their markers are, ascending.
        self._aborted: dict[int, list[int]] = {}
        self._left = max(max_bytes // ABORTED_BYTES, MIN_TRANSACTIONS)

    @property
    def end_offset(self) -> int | None:
        """Cleaning has to end before this offset; None if nothing is in the way."""
        ends = list(self.open.values())
        if self.stopped_at >= 0:
            ends.append(self.stopped_at)
        return min(ends, default=None)

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether the producer's transactional batch at `offset` is of an aborted transaction."""
        bounds = self._aborted.get(producer_id)
        return bounds is not None and bisect_right(bounds, offset) % 2 == 1

    def walk(self, slices: Slices, expected_offset: int) -> int:
        """Take in the next slice, by headers.

        Returns:
            The offset after its last batch.

        Raises:
            BadBatch: no batch is where one should be; checksums of markers alone are looked at.
            MalformedFrame: a marker is none.
        """
        buffer = slices.read()
        unpack = TRANSACTION_FIELDS.unpack_from
        at, end = 0, len(buffer)
        while at < end and self.stopped_at < 0:
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
            # A control record of a later Kafka, which ends nothing.
            return
        first_offset = self.open.pop(header.producer_id, None)
        if first_offset is None or marker is None or marker.commit:
            return
        self._left -= 1
        self._aborted.setdefault(header.producer_id, []).extend((first_offset, header.base_offset))
