"""The second pass of a cleaning: what stays of each batch (Kafka's Cleaner and its record filter).

The newest record of a key stays [compaction/newest-record]. Tombstones and markers stay until their
horizon has passed [compaction/tombstones]. Records of aborted transactions do not stay
[compaction/aborted-transactions]. Some batches are kept without records [compaction/batches].
"""

from collections.abc import Iterator

from coterie.protocol.raw_records import RawRecord, offsets_and_keys, open_body, split_records
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON, OFFSETS_AND_TIME
from coterie.protocol.record_writer import empty_batch, encode_legacy, rebuild_batch
from coterie.protocol.records import BatchHeader, decode_records, read_header, read_marker
from coterie.storage.aborted_transactions import AbortedTransaction, aborted_at
from coterie.storage.batches import BatchFacts
from coterie.storage.dirty_part import DirtyPart
from coterie.storage.key_runs import Run
from coterie.storage.log import Log
from coterie.storage.offset_map import map_key
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment import Segment
from coterie.storage.slices import Slices, checked_header

# How far one step searches for the next marked batch: 8 KiB of marks.
_SEARCH_BYTES = 512 << 10
# The most marked batches that are examined together.
_MAX_RUN = 64
# The place of batches that were not mapped.
_NO_PLACE = -1


class BatchFilter:
    """Decides what stays. It is fed with all segments up to the end of the dirty part, in order.

    Attributes:
        bytes_read, bytes_written: of all batches so far.
        records_read: the records that were read here and not by the first pass.
        records_kept: the records that stay, tombstones included.
        tombstones_kept: the tombstones that stay.
    """

    def __init__(
        self,
        log: Log,
        dirty: DirtyPart,
        upper_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """Nothing is read yet.

        Args:
            log: the log.
            dirty: the dirty part, which has been mapped.
            upper_offset: the end of what was to be cleaned; the batch before it is kept.
            now_ms: the time of this cleaning.
            delete_retention_ms: how long tombstones and markers stay after it.
        """
        assert dirty.end_offset <= upper_offset, "the dirty part ends where it may"
        self.bytes_read = self.bytes_written = 0
        self.records_read = self.records_kept = self.tombstones_kept = 0
        self._log = log
        self._dirty = dirty
        self._upper_offset = upper_offset
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        # The first pass has read this part, and counted its records.
        self._is_mapped = False
        # The producers of whose present transaction a batch was met.
        self._in_transaction: set[int] = set()
        # What stays and was not taken yet: its bytes, the facts of its batches, its length.
        self._pieces: list[bytes] = []
        self._facts: list[BatchFacts] = []
        self._length = 0
        # The aborted transactions whose markers stay, and were not taken yet.
        self._aborted: list[AbortedTransaction] = []

    def take(self) -> tuple[bytes, list[BatchFacts], list[AbortedTransaction]]:
        """Return what stays of everything since the last call.

        Returns:
            The bytes, the facts of each batch, and the transactions that markers in it have
            aborted.
        """
        data, facts, aborted = b"".join(self._pieces), self._facts, self._aborted
        assert len(data) == self._length, "every batch has its facts"
        assert bool(facts) == bool(data), "facts belong to batches that stay"
        self._pieces, self._facts, self._length, self._aborted = [], [], 0, []
        self.bytes_written += len(data)
        return data, facts, aborted

    def steps(self, files: OpenFiles, segment: Segment, slice_bytes: int) -> Iterator[int]:
        """Filter a segment, in steps; yield the bytes of each. Call `take` after each step.

        Args:
            files: the open files of the log.
            segment: the next segment.
            slice_bytes: the bytes to read in one step.

        Raises:
            BadBatch, MalformedFrame: a batch is bad.
        """
        assert not self._is_mapped, "a segment is filtered as a whole before the next one"
        assert not self._length, "what stays of the segment before was taken"
        size = segment.size
        stretch = self._dirty.stretches.get(segment.base_offset)
        start, end = (size, size) if stretch is None else (stretch.start, stretch.end)
        yield from self._filter_all(Slices(files, segment, 0, slice_bytes, start), None)
        if stretch is not None:
            slices = Slices(files, segment, start, slice_bytes, end)
            self._is_mapped = True
            if stretch.all_marked:
                yield from self._filter_all(slices, stretch.origin)
            else:
                yield from self._filter_marked(slices, stretch.origin)
            self._is_mapped = False
            rest = Slices(files, segment, end, slice_bytes)
            yield from self._filter_all(rest, stretch.origin)

    # --- finding the batches ----------------------------------------------------------------------

    def _filter_all(self, slices: Slices, origin: int | None) -> Iterator[int]:
        """Filter every batch of a part of a segment.

        Args:
            slices: the part.
            origin: of its places (see `Stretch`), if it was mapped.
        """
        expected_offset = slices.segment.base_offset
        while slices.left:
            buffer = slices.read()
            taken, expected_offset = self._filter_slice(buffer, slices, expected_offset, origin)
            slices.skip(taken)
            self.bytes_read += taken
            yield taken

    def _filter_marked(self, slices: Slices, origin: int) -> Iterator[int]:
        """Filter the marked batches of a mapped part. What lies between them is not read."""
        marks = self._dirty.map
        while slices.left:
            place = origin + slices.position
            done = marks.next_marked(place, place + min(slices.left, _SEARCH_BYTES)) - place
            if done:
                slices.skip(done)
            if slices.left and done < _SEARCH_BYTES:
                taken = self._filter_marked_slice(slices.read(), slices.position, origin)
                slices.skip(taken)
                done += taken
            self.bytes_read += done
            yield done

    def _filter_slice(
        self, buffer: bytes, slices: Slices, expected_offset: int, origin: int | None
    ) -> tuple[int, int]:
        """Filter the whole batches of a slice; return their length, and the offset after them."""
        first_offset, position = self._dirty.first_offset, slices.position
        must_check = not slices.is_checked(len(buffer))
        take = self._dirty.layouts.take
        at, end = 0, len(buffer)
        while at < end:
            offsets = range(expected_offset, first_offset)
            run = take(buffer, at, offsets, check_crc=must_check)
            if run is not None:
                self._filter_run(buffer, run, at)
                at, expected_offset = run.stop, run.next_offset
                continue
            header = checked_header(buffer, at, position, expected_offset)
            if header is None:
                break
            if not self._is_mapped and header.magic == 2:
                self.records_read += header.record_count
            place = _NO_PLACE if origin is None else origin + position + at
            self._filter(buffer, header, at, place)
            self._dirty.layouts.learn(buffer, header, at)
            expected_offset = header.next_offset
            at += header.length_bytes
        return at, expected_offset

    def _filter_marked_slice(self, buffer: bytes, position: int, origin: int) -> int:
        """Filter the marked batches of a slice that begins with one; return the bytes done."""
        dirty, place = self._dirty, origin + position
        marks = dirty.map
        take = dirty.layouts.take
        offsets = range(dirty.first_offset, dirty.end_offset - 1)
        # If one batch stays, its neighbours often do. So the number of batches that are examined
        # together grows.
        at, end, most = 0, len(buffer), 1
        while at < end:
            here = place + at
            if not marks.is_marked(here):
                at = marks.next_marked(here, place + end) - place
                continue
            # A marked batch was checked when it was mapped.
            run = take(buffer, at, offsets, check_crc=False, most=most)
            stop = at if run is None else self._stays_until(run, at, place)
            if run is not None and stop > at:
                self._keep_run(buffer, at, stop, run)
                at, most = stop, min(2 * most, _MAX_RUN)
                continue
            most = 1
            header = checked_header(buffer, at, position, 0)
            if header is None:
                break
            self._filter(buffer, header, at, here)
            at += header.length_bytes
        return at

    # --- runs of plain batches --------------------------------------------------------------------

    def _filter_run(self, buffer: bytes, run: Run, at: int) -> None:
        """Filter a run of batches before the dirty part."""
        if not self._is_mapped:
            self.records_read += len(run.keys)
        last, size, count = self._dirty.map.last, run.batch_bytes, run.batch_records
        kept_from = at
        for start, keys in run.batches(at):
            stay = [key for key in keys if key not in last]
            if len(stay) == count and (count == 1 or len(set(stay)) == count):
                continue
            self._keep_run(buffer, kept_from, start, run)
            kept_from = start + size
            if stay:
                # Only some records stay, or a key is there twice.
                self._filter(buffer, read_header(buffer, start), start, _NO_PLACE)
        self._keep_run(buffer, kept_from, run.stop, run)

    def _stays_until(self, run: Run, at: int, place: int) -> int:
        """Return the position up to which every record of a run stays.

        Args:
            run: the run, in the dirty part.
            at: where it begins in its slice.
            place: of the slice.
        """
        last, count = self._dirty.map.last.get, run.batch_records
        for start, keys in run.batches(at):
            here = place + start
            stay = [key for key in keys if last(key) == here]
            if len(stay) < count or (count > 1 and len(set(stay)) < count):
                return start
        return run.stop

    def _keep_run(self, buffer: bytes, start: int, stop: int, run: Run) -> None:
        """Keep the batches of a run between `start` and `stop`."""
        if start == stop:
            return
        assert start < stop, "the batches of a run lie one behind the other"
        data, size, length = buffer[start:stop], run.batch_bytes, self._length
        self._pieces.append(data)
        for base_offset, delta, max_timestamp_ms in run.offsets_and_times(data):
            self._facts.append((length, size, base_offset, base_offset + delta, max_timestamp_ms))
            length += size
        assert length == self._length + len(data), "a run is kept in whole batches"
        self.records_kept += (length - self._length) // size * run.batch_records
        self._length = length

    # --- batches of any kind ----------------------------------------------------------------------

    def _filter(self, buffer: bytes, header: BatchHeader, at: int, place: int) -> None:
        """Filter one batch.

        Args:
            buffer: contains the whole batch.
            header: of the batch.
            at: where the batch begins.
            place: in the dirty part, or `_NO_PLACE`.
        """
        whole = buffer[at : at + header.length_bytes]
        if header.magic < 2:
            self._filter_legacy(whole, header, place)
            return
        if header.base_offset >= self._dirty.end_offset:
            if header.is_control:
                self._keep_aborted(header)
            self._keep(whole, header.record_count)
            return
        body, start, end = open_body(whole, header)
        records = split_records(body, start, end, header.record_count)
        is_orphan = False
        if header.is_control:
            is_orphan = self._is_orphaned_marker(whole, header)
            if not is_orphan:
                self._keep_aborted(header)
            kept = [] if is_orphan and self._horizon_has_passed(header) else records
        elif header.is_transactional and self._is_aborted(header):
            kept = []
        else:
            kept = self._retained(header, body, records, place)
        tombstones = 0
        if not header.is_control:
            tombstones = sum(value_bytes < 0 for *_, value_bytes in kept)
        self.tombstones_kept += tombstones
        needs_horizon = (
            (tombstones > 0 or is_orphan) and not header.attributes & HAS_DELETE_HORIZON
        )  # fmt: skip
        if not kept:
            if self._stays_empty(header):
                self._keep(empty_batch(header) if records else whole, 0)
        elif len(kept) == len(records) and not needs_horizon:
            self._keep(whole, len(kept))
        else:
            horizon_ms = self._horizon_ms if needs_horizon else None
            data = rebuild_batch(header, body, kept, delete_horizon_ms=horizon_ms)
            self._keep(data, len(kept))

    def _keep(self, data: bytes, records: int) -> None:
        """Keep a batch of magic 2, which is `data`."""
        base_offset, last_offset_delta, max_timestamp_ms = OFFSETS_AND_TIME.unpack_from(data)
        length = len(data)
        ascends = not self._facts or self._facts[-1][3] < base_offset
        assert ascends, "what stays has the order of the log"
        self._pieces.append(data)
        self._facts.append(
            (self._length, length, base_offset, base_offset + last_offset_delta, max_timestamp_ms)
        )
        self._length += length
        self.records_kept += records

    def _retained(
        self, header: BatchHeader, body: bytes, records: list[RawRecord], place: int
    ) -> list[RawRecord]:
        """Return the records of a batch that stay."""
        has_passed, end_offset = self._horizon_has_passed(header), self._dirty.end_offset
        keys = offsets_and_keys(body, header, records)
        kept = []
        for record, (offset, _), is_newest in zip(
            records, keys, self._newest(keys, place), strict=True
        ):
            *_, value_bytes = record
            if is_newest and (value_bytes >= 0 or not has_passed or offset >= end_offset):
                kept.append(record)
        return kept

    def _newest(self, records: list[tuple[int, bytes | None]], place: int) -> list[bool]:
        """Return of each record whether it is the newest of its key, or too new to be cleaned.

        Args:
            records: offset and key of each record of one batch.
            place: of the batch.
        """
        dirty = self._dirty
        last, first_offset, end_offset = dirty.map.last, dirty.first_offset, dirty.end_offset
        is_placed = place != _NO_PLACE or not records or records[-1][0] < first_offset
        assert is_placed, "a batch of the dirty part was mapped"
        found = []
        seen: set[bytes] = set()
        # Backwards, because the last one of several records with a key in the batch is the newest.
        for offset, key in reversed(records):
            if offset >= end_offset:
                found.append(True)
            elif key is None:
                found.append(False)
            else:
                known = map_key(key)
                if offset < first_offset:
                    found.append(known not in last and known not in seen)
                else:
                    found.append(last.get(known) == place and known not in seen)
                seen.add(known)
        found.reverse()
        return found

    def _horizon_has_passed(self, header: BatchHeader) -> bool:
        has_horizon = header.attributes & HAS_DELETE_HORIZON != 0
        return has_horizon and header.base_timestamp_ms <= self._now_ms

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Note a transactional batch; return whether its transaction was aborted."""
        self._in_transaction.add(header.producer_id)
        return self._dirty.is_aborted(header)

    def _keep_aborted(self, header: BatchHeader) -> None:
        """Keep the aborted transaction that a control batch ends, if it ends one."""
        offset = header.base_offset
        aborted = aborted_at(self._log.transactions_from(offset), offset)
        if aborted is not None:
            ascends = not self._aborted or self._aborted[-1].last_offset < offset
            assert ascends, "markers stay in the order of the log"
            self._aborted.append(aborted)

    def _is_orphaned_marker(self, batch: bytes, header: BatchHeader) -> bool:
        """Return whether no batch is left of the transaction that a control batch ends."""
        for record in decode_records(batch, header):
            if read_marker(record) is None:
                # A control record of a later Kafka, which is kept because it is not understood.
                return False
        if header.producer_id in self._in_transaction:
            self._in_transaction.discard(header.producer_id)
            return False
        return True

    def _stays_empty(self, header: BatchHeader) -> bool:
        """Return whether a batch without records is kept [compaction/batches]."""
        if header.next_offset == self._upper_offset:
            return True
        entry = self._log.producers.get(header.producer_id)
        if entry is None:
            # No producer, or one that has expired.
            return False
        if entry.last_offset >= 0:
            return header.last_offset == entry.last_offset
        # Nothing but a marker is left of the producer. It says the producer's epoch.
        return header.is_control and header.producer_epoch == entry.epoch

    # --- magic 0 and 1 [compaction/legacy-messages] -----------------------------------------------

    def _filter_legacy(self, message: bytes, header: BatchHeader, place: int) -> None:
        records = decode_records(message, header)
        newest = self._newest([(each.offset, each.key) for each in records], place)
        if not self._is_mapped:
            self.records_read += len(records)
        kept = [each for each, is_newest in zip(records, newest, strict=True) if is_newest]
        self.tombstones_kept += sum(each.value is None for each in kept)
        if len(kept) == len(records):
            self._keep_legacy(message, header, len(kept))
            return
        for record in kept:
            data = encode_legacy(record, header.magic, log_append_time=header.log_append_time)
            self._keep_legacy(data, read_header(data), 1)

    def _keep_legacy(self, message: bytes, header: BatchHeader, records: int) -> None:
        facts = (len(message), header.base_offset, header.last_offset, header.max_timestamp_ms)
        self._pieces.append(message)
        self._facts.append((self._length, *facts))
        self._length += len(message)
        self.records_kept += records
