"""The first pass of a cleaning: every key of the dirty part is mapped [compaction/two-passes].

The dirty part is what was written since the last cleaning, without the active segment. Records of
aborted transactions, and markers, are not mapped. Mapping ends where the map is full, where the
first open transaction begins, or at the end of the dirty part; the next cleaning continues there.

Every batch is checked before it is mapped (checksum, order of offsets), because a damaged key in
the map could replace a good record. So are the transaction indexes: a wrong one could let the
records of an aborted transaction replace others [compaction/aborted-transactions].
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.protocol.control_records import marker_of
from coterie.protocol.raw_records import offsets_and_keys, open_body, split_keys, split_records
from coterie.protocol.records import BatchHeader, decode_records
from coterie.storage.aborted_transactions import aborted_at, is_aborted
from coterie.storage.errors import CorruptLog
from coterie.storage.key_runs import KeyLayouts
from coterie.storage.log import Log
from coterie.storage.offset_map import OffsetMap
from coterie.storage.segment import Segment
from coterie.storage.slices import Slices, checked_header


class DirtyPartConfig(NamedTuple):
    """The settings of a mapping.

    Attributes:
        slice_bytes: the bytes to read in one step.
        max_map_bytes: the bound of the map.
    """

    slice_bytes: int
    max_map_bytes: int


class Stretch:
    """The bytes of one segment that belong to the dirty part.

    Attributes:
        origin: the place of the segment's first byte in the dirty part (`offset_map.py`).
        start: the position of the first byte of the stretch in the file.
        end: the position after its last byte.
        all_marked: whether every batch is read again, and not only the marked ones.
    """

    __slots__ = ("all_marked", "end", "origin", "start")

    def __init__(self, origin: int, start: int) -> None:
        self.origin = origin
        self.start = self.end = start
        self.all_marked = False


class DirtyPart:
    """The dirty part of a log, and the map of its keys.

    Attributes:
        first_offset: where it begins.
        end_offset: where it ends, before the first open transaction. Mapping lowers it to where
            the map was full.
        map: the map.
        layouts: the layouts that both passes use.
        stretches: what was mapped of each segment, by base offset.
        records_read: the number of records in the batches that were mapped.
        map_full: whether the map was full before the end.
    """

    def __init__(
        self,
        log: Log,
        segments: Sequence[Segment],
        first_offset: int,
        end_offset: int,
        config: DirtyPartConfig,
    ) -> None:
        """Nothing is read yet.

        Args:
            log: the log.
            segments: those of the dirty part, in order.
            first_offset: where the dirty part begins, within the first of them.
            end_offset: where the last of them ends.
            config: the settings.
        """
        assert first_offset <= end_offset, "the dirty part begins before it ends"
        self.first_offset = first_offset
        # A record that may still be aborted replaces none [compaction/cleanable-part].
        self.end_offset = max(min(end_offset, log.last_stable_offset), first_offset)
        self.map = OffsetMap(config.max_map_bytes)
        self.layouts = KeyLayouts()
        self.records_read = 0
        self.map_full = False
        self.stretches: dict[int, Stretch] = {}
        self._log = log
        self._segments = segments
        self._config = config
        self._upper_offset = end_offset
        # The producers of whose present transaction a batch was read.
        self._in_transaction: set[int] = set()
        # The least offset that the next batch may have.
        self._expected_offset = 0
        self._is_done = False

    def steps(self) -> Iterator[tuple[Segment, int]]:
        """Map everything, in steps; yield the segment that is read and the bytes that were read.

        Raises:
            BadBatch, MalformedFrame: a batch of the segment that was yielded last is bad.
            CorruptLog: an index was wrong, and the log behind it too; or a transaction index.
        """
        origin = 0
        for segment in self._segments:
            if self._is_done:
                break
            assert segment.base_offset not in self.stretches, "a segment is mapped once"
            position = segment.position_of(self.first_offset)
            stretch = self.stretches[segment.base_offset] = Stretch(origin, position)
            slices = Slices(self._log.files, segment, position, self._config.slice_bytes)
            self._expected_offset = segment.base_offset
            while slices.left and not self._is_done:
                yield segment, 0
                taken = self._map(slices.read(), slices, stretch)
                if taken:
                    slices.skip(taken)
                if self.map.full and not self._is_done:
                    self.map_full = True
                    self._end_at(self._expected_offset)
                yield segment, taken
            stretch.end = slices.position
            assert stretch.end >= stretch.start, "a stretch does not end before it begins"
            origin += segment.size
        for _ in self.map.seal():
            yield self._segments[0], 0
        assert self.first_offset <= self.end_offset <= self._upper_offset, "the end is lowered"

    def _end_at(self, offset: int) -> None:
        assert offset >= self.first_offset, "the dirty part does not end before it begins"
        self.end_offset = min(self.end_offset, offset)
        self._is_done = True

    def _map(self, buffer: bytes, slices: Slices, stretch: Stretch) -> int:
        """Map the whole batches of a slice; return their length."""
        position = slices.position
        origin = stretch.origin + position
        must_check = not slices.is_checked(len(buffer))
        take = self.layouts.take
        least_offset = self.first_offset
        expected_offset = self._expected_offset
        at, end = 0, len(buffer)
        records = 0
        self.map.reach(origin + end)
        while at < end:
            # A run leaves out the last batch of the dirty part, which has to be marked.
            offsets = range(max(expected_offset, least_offset), self.end_offset - 1)
            run = take(buffer, at, offsets, check_crc=must_check)
            if run is not None:
                self.map.add_run(run.keys, origin + at, run.batch_bytes, run.batch_records)
                records += len(run.keys)
                at, expected_offset = run.stop, run.next_offset
                continue
            self._expected_offset = expected_offset
            header = checked_header(buffer, at, position, expected_offset)
            if header is None:
                break
            self._map_batch(buffer, header, at, origin + at, stretch)
            if self._is_done and header.next_offset > self.end_offset:
                break
            self.layouts.learn(buffer, header, at)
            records += max(header.record_count, 0)
            expected_offset = header.next_offset
            at += header.length_bytes
        assert at <= end, "a batch lies within its slice"
        self._expected_offset = expected_offset
        self.records_read += records
        return at

    def _map_batch(
        self, buffer: bytes, header: BatchHeader, at: int, place: int, stretch: Stretch
    ) -> None:
        """Map a batch of any kind, or the part of it that belongs to the dirty part."""
        if header.magic == 2 and header.base_offset >= self.end_offset:
            self._end_at(self.end_offset)
            return
        if header.magic < 2 or header.record_count == 0:
            # The batch may be too short for a mark of its own.
            stretch.all_marked = True
        elif (
            header.producer_id >= 0
            or header.is_transactional
            or header.is_control
            or header.base_offset < self.first_offset
            or header.next_offset >= self._upper_offset
        ):
            self.map.mark(place)
        if header.is_control:
            self._check_marker(buffer, header, at)
            return
        if header.is_transactional:
            self._in_transaction.add(header.producer_id)
            if self.is_aborted(header):
                return
        keys = self._keys(buffer, header, at)
        room = self.map.room()
        if len(keys) > room:
            self.map_full = True
            if self._expected_offset > self.first_offset and self.map.last:
                self._end_at(self._expected_offset)
                return
            # One batch has more keys than the map holds. A part of it is mapped, so that every
            # cleaning makes progress.
            room = max(room, 1)
            if len(keys) > room:
                offset, _ = self._records(buffer, header, at)[room]
                self._end_at(offset)
        self.map.add(keys[:room], place)

    def _keys(self, buffer: bytes, header: BatchHeader, at: int) -> list[bytes | None]:
        """Return the keys of the batch's records that belong to the dirty part."""
        is_whole = header.base_offset >= self.first_offset and header.last_offset < self.end_offset
        if header.magic == 2 and is_whole:
            body, start, end = open_body(buffer, header, at)
            return split_keys(body, start, end, header.record_count)
        return [key for _, key in self._records(buffer, header, at)]

    def _records(
        self, buffer: bytes, header: BatchHeader, at: int
    ) -> list[tuple[int, bytes | None]]:
        """As `_keys`, with the offsets of the records."""
        if header.magic < 2:
            found = [(each.offset, each.key) for each in decode_records(buffer, header, at)]
        else:
            body, start, end = open_body(buffer, header, at)
            found = offsets_and_keys(
                body, header, split_records(body, start, end, header.record_count)
            )
        return [
            (offset, key) for offset, key in found if self.first_offset <= offset < self.end_offset
        ]

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch belongs to an aborted transaction.

        Raises:
            CorruptLog: a transaction index is damaged.
        """
        offset = header.base_offset
        return is_aborted(self._log.transactions_from(offset), header.producer_id, offset)

    def _check_marker(self, buffer: bytes, header: BatchHeader, at: int) -> None:
        """Compare the marker of a transaction whose data was read with the transaction index.

        Raises:
            CorruptLog: the index says something else.
        """
        marker = marker_of(buffer, header, at)
        if marker is None or header.producer_id not in self._in_transaction:
            return
        self._in_transaction.discard(header.producer_id)
        offset = header.base_offset
        if marker.commit == (aborted_at(self._log.transactions_from(offset), offset) is not None):
            path = next(self._log.transactions_from(offset)).path
            outcome = "committed" if marker.commit else "aborted"
            reason = f"it contradicts the marker at {offset}, which has {outcome}"
            raise CorruptLog(path, 0, reason)
