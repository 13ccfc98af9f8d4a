"""Finding the producers of a log when it is opened: a snapshot, and the batches behind it.

The recovery of the last segment scans its batches anyway [recovery/tail-scan]; the producers behind
the snapshot are read from the same scan. Older segments are read only where no snapshot covers
them, for example in a directory of an older version of this broker [recovery/producer-snapshots].
"""

import struct

from coterie.protocol.control_records import marker_of
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import CONTROL, TRANSACTIONAL, header_format
from coterie.protocol.records import read_header
from coterie.storage.aborted_transactions import AbortedTransaction
from coterie.storage.batches import ProducerBatchReader
from coterie.storage.errors import CorruptLog
from coterie.storage.producer_snapshots import ProducerSnapshots
from coterie.storage.producer_state import ProducerState
from coterie.storage.segment import Segment

# How long a producer is remembered after a start, at least: longer than the retries of a client
# last (delivery.timeout.ms, two minutes). A snapshot only has the timestamps of batches, which may
# be much older than their appends [data-plane/producer-expiration].
LEAST_MEMORY_MS = 600_000

_ANY_OFFSET = 1 << 63
_FIELDS = struct.Struct(
    header_format(
        "base_offset", "attributes", "last_offset_delta", "max_timestamp_ms",
        "producer_id", "producer_epoch", "base_sequence",
    )
)  # fmt: skip

_AGE = struct.Struct(header_format("base_offset", "attributes", "max_timestamp_ms"))


def note_batch(
    state: ProducerState, buffer: bytes, at: int, seen_ms: int
) -> AbortedTransaction | None:
    """Note a batch of a producer, data or a marker, which is in the log.

    Args:
        state: the producers of the log.
        buffer: contains the batch.
        at: where it begins.
        seen_ms: when the producer was active.

    Returns:
        The transaction with data that the batch has aborted, if any.

    Raises:
        MalformedFrame: it is a control batch whose record cannot be read.
    """
    base_offset, attributes, delta, timestamp_ms, producer_id, epoch, sequence = (
        _FIELDS.unpack_from(buffer, at)
    )
    if not attributes & CONTROL:
        state.add(
            producer_id, epoch, sequence, delta, base_offset, timestamp_ms, seen_ms,
            is_transactional=attributes & TRANSACTIONAL != 0,
        )  # fmt: skip
        return None
    header = read_header(buffer, at)
    marker = marker_of(buffer, header, at)
    if marker is None:
        # Compaction has emptied the batch, or it is a control record of a later Kafka.
        return None
    ended = state.end_transaction(header, marker.coordinator_epoch, seen_ms)
    return None if marker.commit else ended


class ProducerLoading:
    """The producers of a log that is being opened.

    Attributes:
        state: the producers, as far as they have been read.
        damage: why the state is not complete, if it is not.
    """

    def __init__(
        self, snapshots: ProducerSnapshots, now_ms: int, expiration_ms: int, *, is_trusted: bool
    ) -> None:
        """Nothing is read yet.

        Args:
            snapshots: the snapshots of the log.
            now_ms: epoch milliseconds.
            expiration_ms: producer.id.expiration.ms.
            is_trusted: whether every file has all that was written to it, so that a snapshot within
                the last segment, and the transaction index of that segment, belong together.
        """
        self.state = ProducerState()
        self.damage: CorruptLog | None = None
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._seen_after_ms = now_ms - expiration_ms + min(LEAST_MEMORY_MS, expiration_ms)
        # The snapshot has the batches before this offset.
        self._from_offset = 0
        self._is_complete = False
        self._is_trusted = is_trusted
        self._segments: list[Segment] = []
        # Whether batches of transactions were skipped in the segment that is being read.
        self._has_skipped = False
        # Whether segments were read that are not scanned anyway.
        self._has_read_more = False
        # The segment that is being read, and the transactions that its markers have aborted.
        self._segment: Segment | None = None
        self._aborted: list[AbortedTransaction] = []

    def begin(self, names: list[str], segments: list[Segment], unscanned: int) -> None:
        """Read the newest snapshot; if files may have lost something, one before the scan.

        Args:
            names: the names in the partition's directory.
            segments: those of the log, which need not be opened yet.
            unscanned: how many of them are not scanned.

        Raises:
            OSError: a snapshot could not be read, or a damaged one not be removed.
        """
        assert not self._segments, "the producers of a log are loaded once"
        self._snapshots.find(names)
        existing = set(names)
        for segment in segments:
            if segment.transactions.path.rpartition("/")[2] not in existing:
                segment.transactions.begin()
        if not segments:
            return
        assert unscanned < len(segments), "the last segment is always scanned"
        self._segments = segments
        self._read_snapshot(_ANY_OFFSET if self._is_trusted else segments[unscanned].base_offset)

    def _read_snapshot(self, at_most: int) -> None:
        found = self._snapshots.read(at_most, self._seen_after_ms, self._now_ms)
        self._from_offset, self.state = (0, ProducerState()) if found is None else found
        assert self._from_offset <= at_most, "a snapshot is not behind what may be read"
        # Without a snapshot it is unknown which transactions were open where the log begins.
        self._is_complete = found is not None or self._segments[0].base_offset == 0

    def reader(self, segment: Segment) -> ProducerBatchReader:
        """Return the function to be called with the batches of a segment that is scanned.

        `end_segment` has to be called afterwards.
        """
        self._segment, self._aborted, self._has_skipped = segment, [], False
        return self._read_batch

    def end_segment(self) -> None:
        """Bring the transaction index of the segment in line with its batches.

        Raises:
            OSError: the index could not be read or written.
        """
        segment, self._segment = self._segment, None
        assert segment is not None, "a segment was read"
        if segment is self._segments[-1] and self._from_offset > segment.base_offset:
            is_ahead = self._from_offset > segment.next_offset
            if is_ahead or self._has_skipped:
                # The snapshot cannot be right, or the index is to be compared with all markers.
                self._read_from_base(segment)
                return
        if self._is_complete and not self._has_skipped:
            segment.transactions.replace(self._aborted)
        else:
            segment.transactions.repair(self._aborted, segment.next_offset)

    def end_with(self, segments: list[Segment]) -> None:
        """Take note that only these segments are left: the last one was cut, or its end is missing.

        Raises:
            OSError: as `read`, if the snapshot is ahead of what is left.
        """
        assert segments, "a segment that was cut stays"
        self._segments = segments
        if self._from_offset > segments[-1].next_offset:
            self._read_from_base(segments[-1])

    def _read_from_base(self, segment: Segment) -> None:
        """Read a segment that was scanned, from a snapshot that is not within it."""
        assert segment is self._segments[-1], "the segments before it were read already"
        self._read_snapshot(segment.base_offset)
        for each in self._segments:
            self.read(each)

    def read(self, segment: Segment) -> None:
        """Read a segment that is not scanned, unless the snapshot covers it.

        The log can be read without its producers, so damage is kept for their first use.

        Raises:
            OSError: the segment could not be read, or its transaction index not be written.
        """
        if segment.next_offset <= self._from_offset or self.damage is not None:
            return
        self._has_read_more = True
        read_batch = self.reader(segment)
        # What lies before the snapshot is not read, and may have markers.
        self._has_skipped = self._from_offset > segment.base_offset
        try:
            segment.read_producers(self._from_offset, read_batch)
        except CorruptLog as error:
            self.damage = error
            return
        self.end_segment()

    def forget(self) -> None:
        """Forget what was read, because the log has lost everything and begins anew.

        A transaction that was open before would never end.
        """
        self.state = ProducerState()
        self.damage = None
        self._from_offset = 0

    def finish(
        self, end_offset: int, base_offsets: set[int], *, trusted: bool, durable: bool
    ) -> None:
        """Remove snapshots that are ahead of the log, and write one for the next start.

        Args:
            end_offset: the end of the log.
            base_offsets: those of its segments.
            trusted: whether snapshots behind the offset at which reading began belong to this log.
            durable: whether a loss of power must leave a usable snapshot.

        Raises:
            OSError: a snapshot could not be removed or synced.
        """
        assert base_offsets, "an open log has an active segment"
        has_ended = self._segment is None or self.damage is not None
        assert has_ended, "each segment is read to its end"
        self._snapshots.remove_after(end_offset if trusted else self._from_offset)
        if self.damage is None:
            self.state.sort()
            # Without producers the scan of the last segment finds as much.
            if len(self.state) or self._has_read_more:
                self._snapshots.write(end_offset, self.state)
        if durable and self._snapshots.surplus(base_offsets):
            # It may be the only durable one that is removed.
            self._snapshots.keep_durable(0, max(base_offsets))
        self._snapshots.prune(base_offsets, durable=durable)

    def _read_batch(self, buffer: bytes, at: int) -> None:
        base_offset, attributes, timestamp_ms = _AGE.unpack_from(buffer, at)
        if base_offset < self._from_offset:
            if attributes & TRANSACTIONAL:
                self._has_skipped = True
            return
        seen_ms = min(max(timestamp_ms, self._seen_after_ms), self._now_ms)
        try:
            aborted = note_batch(self.state, buffer, at, seen_ms)
        except MalformedFrame as error:
            assert self._segment is not None, "a segment is being read"
            if self.damage is None:
                self.damage = CorruptLog(self._segment.path, 0, str(error))
            return
        if aborted is not None:
            self._aborted.append(aborted)
