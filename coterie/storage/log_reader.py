"""Reading the log of one partition: by offset, by time, up to the last stable offset, or whole."""

from collections.abc import Iterator

from coterie.storage.aborted_transactions import AbortedTransaction, TransactionIndex
from coterie.storage.batches import CHUNK_BYTES
from coterie.storage.errors import OffsetOutOfRange
from coterie.storage.log_producers import LogProducers
from coterie.storage.producer_state import ProducerState
from coterie.storage.segment import Segment
from coterie.storage.segment_list import SegmentList
from coterie.storage.segment_reader import MAX_OFFSET


class LogReader:
    """The batches of one partition, from `log_start_offset` to before `log_end_offset`.

    Attributes:
        directory: the partition's directory.
        log_start_offset: the first offset.
        log_end_offset: the offset that the next record gets.
    """

    def __init__(self, directory: str, producers: LogProducers) -> None:
        """Start without segments; `Log` finds them."""
        self.directory = directory
        self.log_start_offset = 0
        self.log_end_offset = 0
        self._segments = SegmentList([])
        self._producers = producers

    @property
    def size_bytes(self) -> int:
        """What the log takes up, without its indexes."""
        return self._segments.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments in order, the active one last."""
        return tuple(self._segments.all)

    @property
    def producers(self) -> ProducerState:
        """The producers of the log.

        Raises:
            CorruptLog: the log is damaged where they had to be read.
        """
        return self._producers.state

    @property
    def last_stable_offset(self) -> int:
        """Where reads at isolation level READ_COMMITTED end [data-plane/last-stable-offset].

        Raises:
            CorruptLog: as `producers`.
        """
        first_unstable_offset = self.producers.first_unstable_offset
        if first_unstable_offset is None:
            return self.log_end_offset
        assert first_unstable_offset < self.log_end_offset, "a transaction begins with a record"
        return max(first_unstable_offset, self.log_start_offset)

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction is open, as far as is known of a damaged log."""
        return self._producers.has_open_transaction

    def bytes_between(self, first: int, last: int) -> int:
        """Return the size of the batches from one offset to before another.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        return self._segments.bytes_between(first, last)

    def read(self, offset: int, max_bytes: int, wanted_offset: int = MAX_OFFSET) -> bytes:
        """Return whole batches from the one that holds `offset` [log/reads].

        Args:
            offset: where to begin.
            max_bytes: the most to read; the first batch may be larger.
            wanted_offset: no batch behind the one that holds it is read.

        Raises:
            OffsetOutOfRange: `offset` is before the log's start or after its end.
            CorruptLog: the files are damaged where they were read.
        """
        self._check_offset(offset)
        if offset == self.log_end_offset:
            # A consumer that waits at the end reads the next batch first. It is found at once then.
            active = self._segments.all[-1]
            active.remember(offset, active.size)
            return b""
        data, _ = self._segments.read(offset, max_bytes, wanted_offset)
        return data

    def read_committed(
        self, offset: int, max_bytes: int, wanted_offset: int = MAX_OFFSET
    ) -> tuple[bytes, list[AbortedTransaction]]:
        """Return whole batches before the last stable offset [data-plane/isolation].

        See `read`.

        Returns:
            The batches, and the aborted transactions that overlap them.

        Raises:
            OffsetOutOfRange, CorruptLog: as `read`.
        """
        self._check_offset(offset)
        stable = self.last_stable_offset
        if offset >= stable:
            return (self.read(offset, 0) if offset == self.log_end_offset else b""), []
        return self._segments.read_committed(offset, max_bytes, stable, wanted_offset)

    def transactions_from(self, offset: int) -> Iterator[TransactionIndex]:
        """Yield the transaction indexes of the segment that holds `offset`, and of later ones."""
        return self._segments.transactions_from(offset)

    def chunks(self, offset: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Yield all batches from `offset` (default: the log's start) to the end the log has now.

        Each chunk is whole batches of up to `chunk_bytes`, or one larger batch. This process has
        checked every batch [log/reads].

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        if offset is None:
            offset = self.log_start_offset
        return self._segments.chunks(offset, self.log_end_offset, chunk_bytes)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record that is not older [log/time-lookup].

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        return self._segments.offset_for_timestamp(timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> tuple[int, int]:
        """Return the greatest timestamp and the first offset that has it [log/time-lookup].

        Both are -1 if there is none.

        Raises:
            CorruptLog: the files are damaged where they were read.
        """
        return self._segments.max_timestamp(self.log_start_offset)

    def _check_offset(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                self.directory, offset, self.log_start_offset, self.log_end_offset
            )
