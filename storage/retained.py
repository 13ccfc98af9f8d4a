"""The second half of a cleaning: what stays of each batch (Kafka's Cleaner and its record filter).

A record stays if it is the last of its key and has a value. A tombstone, the last of its key
without one, stays until its delete horizon: delete.retention.ms after the cleaning that first met
it, which writes that time into the batch in place of the base timestamp (KIP-534). Records without
a key go, and those of aborted transactions. A marker goes when nothing of its transaction was met
any more, and a horizon of its own has passed.

Batches keep their offsets, producer and codec; one of which all records stay is copied byte for
byte. A batch of which nothing stays is kept empty if it is the last of a producer that may be
active, whose sequence it tells (or whose epoch, if nothing but a marker was met), or the last
before the end of what was to be cleaned, whose offset it tells.

Messages of magic 0 and 1 have no place for a horizon. Kafka looks at the age of the file; we keep
their tombstones until something follows under their key. What is left of a compressed message is
written as messages of its own.
"""

from collections.abc import Iterator

from coterie.protocol.raw_records import RawRecord, offsets_and_keys, open_body, split_records
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON, OFFSETS_AND_TIME
from coterie.protocol.record_writer import empty_batch, encode_legacy, rebuild_batch
from coterie.protocol.records import BatchHeader, decode_records, read_header, read_marker
from coterie.storage.batches import BatchFacts
from coterie.storage.dirty_part import DirtyPart
from coterie.storage.key_runs import Run
from coterie.storage.offset_map import map_key
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment import Segment
from coterie.storage.slices import Slices, checked_header

# How far to look for the next marked batch in one step: 8 KiB of marks.
_HOP_BYTES = 512 << 10
# Marked batches looked at together.
_MOST = 64


class BatchFilter:
    """Fed with the batches of all segments up to the dirty part's end, in order."""

    def __init__(
        self,
        dirty: DirtyPart,
        upper_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        producers_since_ms: int,
    ) -> None:
        """Nothing has been read yet.

        Args:
            dirty: what was mapped.
            upper_offset: the end of what was to be cleaned; the batch before it stays, if empty.
            now_ms: the time of this cleaning.
            delete_retention_ms: how long tombstones and markers stay after it.
            producers_since_ms: producers whose last batch is older are not active any more.
        """
        self.bytes_read = self.bytes_written = 0
        self.records_read = self.records_kept = self.tombstones_kept = 0
        self._dirty = dirty
        self._upper_offset = upper_offset
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._producers_since_ms = producers_since_ms
        # Whether what is being looked at has been mapped, and so been counted as read.
        self._mapped = False
        # ProducerState of whose current transaction a batch was met.
        self._met: set[int] = set()
        self._pieces: list[bytes] = []
        self._facts: list[BatchFacts] = []
        self._length = 0

    def take(self) -> tuple[bytes, list[BatchFacts]]:
        """What stays of all that was fed since the last time, and where each batch stands in it."""
        data, facts = b"".join(self._pieces), self._facts
        self._pieces, self._facts, self._length = [], [], 0
        self.bytes_written += len(data)
        return data, facts

    def steps(self, files: OpenFiles, segment: Segment, slice_bytes: int) -> Iterator[int]:
        """Filter a segment, in steps; each tells the bytes that are done. `take` after each.

        Raises:
            BadBatch, MalformedFrame: a batch is damaged.
        """
        size = segment.size
        stretch = self._dirty.stretches.get(segment.base_offset)
        start, end = (size, size) if stretch is None else (stretch.start, stretch.end)
        yield from self._walk(Slices(files, segment, 0, slice_bytes, start), None)
        if stretch is not None:
            slices = Slices(files, segment, start, slice_bytes, end)
            self._mapped = True
            if stretch.all_marked:
                yield from self._walk(slices, stretch.origin)
            else:
                yield from self._visit(slices, stretch.origin)
            self._mapped = False
            yield from self._walk(Slices(files, segment, end, slice_bytes), stretch.origin)

    def _walk(self, slices: Slices, origin: int | None) -> Iterator[int]:
        """Look at every batch of a stretch, whose places begin at `origin` if it was mapped."""
        expected_offset = slices.segment.base_offset
        while slices.left:
            taken, expected_offset = self._feed(slices.read(), slices, expected_offset, origin)
            slices.skip(taken)
            self.bytes_read += taken
            yield taken

    def _visit(self, slices: Slices, origin: int) -> Iterator[int]:
        """Look at the marked batches of a mapped stretch."""
        marks = self._dirty.map
        while slices.left:
            place = origin + slices.position
            # Where nothing is marked nothing is read.
            done = marks.next_marked(place, place + min(slices.left, _HOP_BYTES)) - place
            if done:
                slices.skip(done)
            if slices.left and done < _HOP_BYTES:
                taken = self._feed_marked(slices.read(), slices.position, origin)
                slices.skip(taken)
                done += taken
            self.bytes_read += done
            yield done

    def _feed(
        self, buffer: bytes, slices: Slices, expected_offset: int, origin: int | None
    ) -> tuple[int, int]:
        """Filter the whole batches of a slice: the bytes taken in, the offset after the last."""
        first_offset, position = self._dirty.first_offset, slices.position
        unchecked = not slices.is_checked(len(buffer))
        view, take = memoryview(buffer), self._dirty.layouts.take
        at, end = 0, len(buffer)
        while at < end:
            offsets = range(expected_offset, first_offset)
            run = take(view, at, offsets, check_crc=unchecked)
            if run is not None:
                self._filter_run(buffer, run, at)
                at, expected_offset = run.stop, run.next_offset
                continue
            header = checked_header(buffer, at, position, expected_offset)
            if header is None:
                break
            if not self._mapped and header.magic == 2:
                self.records_read += header.record_count
            self._filter(buffer, header, at, -1 if origin is None else origin + position + at)
            self._dirty.layouts.learn(buffer, header, at)
            expected_offset = header.next_offset
            at += header.length_bytes
        return at, expected_offset

    def _feed_marked(self, buffer: bytes, position: int, origin: int) -> int:
        """Filter the marked batches of a slice, which begins with one; the bytes done with it."""
        dirty, place = self._dirty, origin + position
        marks = dirty.map
        view, take = memoryview(buffer), dirty.layouts.take
        offsets = range(dirty.first_offset, dirty.end_offset - 1)
        # Where one batch stays its neighbours often do: more and more are looked at together.
        at, end, most = 0, len(buffer), 1
        while at < end:
            here = place + at
            if not marks.is_marked(here):
                at = marks.next_marked(here, place + end) - place
                continue
            # Whatever is marked was checked when it was mapped.
            run = take(view, at, offsets, check_crc=False, most=most)
            stop = at if run is None else self._stay_until(run, at, place)
            if run is not None and stop > at:
                self._keep_run(buffer, at, stop, run)
                at, most = stop, min(2 * most, _MOST)
                continue
            most = 1
            header = checked_header(buffer, at, position, 0)
            if header is None:
                break
            self._filter(buffer, header, at, here)
            at += header.length_bytes
        return at

    def _filter_run(self, buffer: bytes, run: Run, at: int) -> None:
        """Decide over neighbouring batches that are alike and lie before the dirty part."""
        if not self._mapped:
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
                # In parts, or with a key twice.
                self._filter(buffer, read_header(buffer, start), start, -1)
        self._keep_run(buffer, kept_from, run.stop, run)

    def _stay_until(self, run: Run, at: int, place: int) -> int:
        """Up to where all records of a run, which begins at `at` of a slice, stay; `place` is that
        of the slice."""
        last, count = self._dirty.map.last.get, run.batch_records
        for start, keys in run.batches(at):
            here = place + start
            stay = [key for key in keys if last(key) == here]
            if len(stay) < count or (count > 1 and len(set(stay)) < count):
                return start
        return run.stop

    def _keep_run(self, buffer: bytes, start: int, stop: int, run: Run) -> None:
        """Let the batches of a run between `start` and `stop` stay."""
        if start == stop:
            return
        data, size, length = buffer[start:stop], run.batch_bytes, self._length
        self._pieces.append(data)
        for base_offset, delta, max_timestamp_ms in run.offsets_and_times(data):
            self._facts.append((length, size, base_offset, base_offset + delta, max_timestamp_ms))
            length += size
        self.records_kept += (length - self._length) // size * run.batch_records
        self._length = length

    def _keep(self, data: bytes, records: int) -> None:
        """Let a batch of magic 2 stay; `data` is all of it."""
        base_offset, last_offset_delta, max_timestamp_ms = OFFSETS_AND_TIME.unpack_from(data)
        length = len(data)
        self._pieces.append(data)
        self._facts.append(
            (self._length, length, base_offset, base_offset + last_offset_delta, max_timestamp_ms)
        )
        self._length += length
        self.records_kept += records

    def _filter(self, buffer: bytes, header: BatchHeader, at: int, place: int) -> None:
        """Decide over a batch of any kind; `place` is that in the dirty part, -1 before it."""
        whole = buffer[at : at + header.length_bytes]
        if header.magic < 2:
            self._filter_legacy(whole, header, place)
            return
        if header.base_offset >= self._dirty.end_offset:
            self._keep(whole, header.record_count)
            return
        body, start, end = open_body(whole, header)
        records = split_records(body, start, end, header.record_count)
        ends_nothing = False
        if header.is_control:
            ends_nothing = self._ends_nothing(whole, header)
            kept = [] if ends_nothing and self._horizon_passed(header) else records
        elif header.is_transactional and self._meet(header):
            kept = []
        else:
            kept = self._retained(header, body, records, place)
        tombstones = 0
        if not header.is_control:
            tombstones = sum(value_bytes < 0 for *_, value_bytes in kept)
        self.tombstones_kept += tombstones
        new_horizon = (
            (tombstones > 0 or ends_nothing) and not header.attributes & HAS_DELETE_HORIZON
        )  # fmt: skip
        if not kept:
            if self._stays_empty(header):
                data = empty_batch(header) if records else whole
                self._keep(data, 0)
        elif len(kept) == len(records) and not new_horizon:
            self._keep(whole, len(kept))
        else:
            horizon_ms = self._horizon_ms if new_horizon else None
            data = rebuild_batch(header, body, kept, delete_horizon_ms=horizon_ms)
            self._keep(data, len(kept))

    def _retained(
        self, header: BatchHeader, body: bytes, records: list[RawRecord], place: int
    ) -> list[RawRecord]:
        passed, end_offset = self._horizon_passed(header), self._dirty.end_offset
        keys = offsets_and_keys(body, header, records)
        kept = []
        for record, (offset, _), stays in zip(
            records, keys, self._last_of_key(keys, place), strict=True
        ):
            *_, value_bytes = record
            if stays and (value_bytes >= 0 or not passed or offset >= end_offset):
                kept.append(record)
        return kept

    def _last_of_key(self, records: list[tuple[int, bytes | None]], place: int) -> list[bool]:
        """Of each record (offset, key) of a batch: whether it is the last of its key, or too new
        to tell."""
        dirty = self._dirty
        last, first_offset, end_offset = dirty.map.last, dirty.first_offset, dirty.end_offset
        found = []
        seen: set[bytes] = set()
        # From the back: of several records with one key in the batch the last one stays.
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

    def _horizon_passed(self, header: BatchHeader) -> bool:
        has_horizon = header.attributes & HAS_DELETE_HORIZON != 0
        return has_horizon and header.base_timestamp_ms <= self._now_ms

    def _meet(self, header: BatchHeader) -> bool:
        """Note a transactional batch; whether it was aborted."""
        self._met.add(header.producer_id)
        return self._dirty.transactions.is_aborted(header.producer_id, header.base_offset)

    def _ends_nothing(self, batch: bytes, header: BatchHeader) -> bool:
        """Whether nothing was met of the transaction that a control batch ends."""
        for record in decode_records(batch, header):
            if read_marker(record) is None:
                # A control record of a later Kafka: not understood, so kept.
                return False
        if header.producer_id in self._met:
            self._met.discard(header.producer_id)
            return False
        return True

    def _stays_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self._upper_offset:
            return True
        dirty, producer_id = self._dirty, header.producer_id
        if producer_id < 0 or (header.is_control and producer_id in dirty.producers):
            return False
        # A marker may be the last that is left of a producer, whose epoch it tells.
        newest = dirty.markers if header.is_control else dirty.producers
        newest_offset = newest.get(producer_id)
        if newest_offset is not None:
            return newest_offset == header.last_offset
        # From before the dirty part, in which the producer wrote nothing.
        return (
            header.base_offset < dirty.first_offset
            and header.max_timestamp_ms > self._producers_since_ms
        )

    def _filter_legacy(self, message: bytes, header: BatchHeader, place: int) -> None:
        records = decode_records(message, header)
        stay = self._last_of_key([(each.offset, each.key) for each in records], place)
        if not self._mapped:
            self.records_read += len(records)
        kept = [each for each, stays in zip(records, stay, strict=True) if stays]
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
