"""The second half of a cleaning: what stays of each batch (Kafka's Cleaner and its record filter).

A record stays if it is the last of its key and has a value. A tombstone, the last of its key
without one, stays until its delete horizon: delete.retention.ms after the cleaning that first met
it, which writes that time into the batch in place of the base timestamp (KIP-534). Records without
a key go, and those of aborted transactions. A marker goes when nothing of its transaction was met
any more, and a horizon of its own has passed.

Batches keep their offsets, producer and codec; one of which all records stay is copied byte for
byte. A batch of which nothing stays is kept empty if it is the last of a producer that may be
active, whose sequence it tells, or the last before the end of what was to be cleaned, whose offset
it tells.

Messages of magic 0 and 1 have no place for a horizon. Kafka looks at the age of the file; we keep
their tombstones until something follows under their key. What is left of a compressed message is
written as messages of its own.
"""

import struct
from collections.abc import Iterator

from protocol import checksum
from protocol.raw_records import RawRecord, open_body, split_records
from protocol.record_batch import (
    CRC_START,
    HAS_DELETE_HORIZON,
    PREFIX_BYTES,
    BatchHeader,
)
from protocol.record_writer import empty_batch, encode_legacy, rebuild_batch
from protocol.records import decode_records, read_header, read_marker
from storage.dirty_part import DirtyPart
from storage.offset_map import map_key
from storage.open_files import OpenFiles
from storage.placing import BatchFacts
from storage.scan import BadBatch
from storage.segment import Segment
from storage.slices import FIELDS, Slices, checked_header

_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35
# How far to look for the next marked batch in one step: 8 KiB of marks.
_HOP_BYTES = 512 << 10


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
        # Producers of whose current transaction a batch was met.
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
            if stretch.all_marked:
                yield from self._walk(slices, stretch.origin)
            else:
                yield from self._visit(slices, stretch.origin)
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
        unpack, crc32c, view = FIELDS.unpack_from, checksum.crc32c, memoryview(buffer)
        last, first_offset = self._dirty.map.last, self._dirty.first_offset
        position = slices.position
        checked = slices.segment.is_checked(position, position + len(buffer))
        at, end, plain = 0, len(buffer), 0
        while at < end:
            if end - at >= FIELDS.size:
                base_offset, length, magic, crc, attributes, delta, producer_id, count = unpack(
                    buffer, at
                )
                stop = at + PREFIX_BYTES + length
                if (
                    magic == 2 and attributes == 0 and producer_id < 0 and count == 1
                    and at + 67 < stop <= end and expected_offset <= base_offset
                    and 0 <= delta < first_offset - base_offset
                ):  # fmt: skip
                    key_at, key_end = _short_key(buffer, at, stop)
                    if key_end and not buffer[key_end] & 1:
                        if not checked and crc32c(view[at + CRC_START : stop]) != crc:
                            raise BadBatch(position + at, f"the checksum is not {crc:#010x}")
                        if buffer[key_at:key_end] not in last:
                            self._keep(buffer[at:stop], base_offset, base_offset + delta, 1)
                        plain += 1
                        expected_offset = base_offset + delta + 1
                        at = stop
                        continue
            header = checked_header(buffer, at, position, expected_offset)
            if header is None:
                break
            self._filter(buffer, header, at, -1 if origin is None else origin + position + at)
            expected_offset = header.next_offset
            at += header.length_bytes
        self.records_read += plain
        return at, expected_offset

    def _feed_marked(self, buffer: bytes, position: int, origin: int) -> int:
        """Filter the marked batches of a slice, which begins with one; the bytes done with it."""
        unpack, marks, place = FIELDS.unpack_from, self._dirty.map, origin + position
        at, end = 0, len(buffer)
        while at < end:
            if not marks.is_marked(place + at):
                at = marks.next_marked(place + at, place + end) - place
                continue
            if end - at >= FIELDS.size:
                base_offset, length, magic, _, attributes, delta, producer_id, count = unpack(
                    buffer, at
                )
                stop = at + PREFIX_BYTES + length
                if (
                    magic == 2 and attributes == 0 and producer_id < 0 and count == 1
                    and at + 67 < stop <= end
                    and base_offset + delta + 1 < self._dirty.end_offset
                    and base_offset >= self._dirty.first_offset
                ):  # fmt: skip
                    _, key_end = _short_key(buffer, at, stop)
                    if key_end and not buffer[key_end] & 1:
                        self._keep(buffer[at:stop], base_offset, base_offset + delta, 1)
                        at = stop
                        continue
            header = checked_header(buffer, at, position, 0)
            if header is None:
                break
            self._filter(buffer, header, at, place + at)
            at += header.length_bytes
        return at

    def _keep(self, data: bytes, base_offset: int, last_offset: int, records: int) -> None:
        """Let a batch stay; `data` is all of it."""
        (max_timestamp_ms,) = _MAX_TIMESTAMP.unpack_from(data, _MAX_TIMESTAMP_AT)
        length = len(data)
        self._pieces.append(data)
        self._facts.append((self._length, length, base_offset, last_offset, max_timestamp_ms))
        self._length += length
        self.records_kept += records

    def _filter(self, buffer: bytes, header: BatchHeader, at: int, place: int) -> None:
        """Decide over a batch of any kind; `place` is that in the dirty part, -1 before it."""
        whole = buffer[at : at + header.length_bytes]
        if header.magic < 2:
            self._filter_legacy(whole, header, place)
            return
        base_offset, last_offset = header.base_offset, header.last_offset
        self.records_read += header.record_count
        if base_offset >= self._dirty.end_offset:
            self._keep(whole, base_offset, last_offset, header.record_count)
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
            kept = self._retained(header, records, place)
        tombstones = 0 if header.is_control else sum(not record[6] for record in kept)
        self.tombstones_kept += tombstones
        new_horizon = (
            (tombstones > 0 or ends_nothing) and not header.attributes & HAS_DELETE_HORIZON
        )  # fmt: skip
        if not kept:
            if self._stays_empty(header):
                data = empty_batch(header) if records else whole
                self._keep(data, base_offset, last_offset, 0)
        elif len(kept) == len(records) and not new_horizon:
            self._keep(whole, base_offset, last_offset, len(kept))
        else:
            horizon_ms = self._horizon_ms if new_horizon else None
            data = rebuild_batch(header, body, kept, delete_horizon_ms=horizon_ms)
            self._keep(data, base_offset, last_offset, len(kept))

    def _retained(
        self, header: BatchHeader, records: list[RawRecord], place: int
    ) -> list[RawRecord]:
        passed, end_offset = self._horizon_passed(header), self._dirty.end_offset
        stay = self._last_of_key(
            [(header.base_offset + each[3], each[5]) for each in records], place
        )
        return [
            record
            for record, stays in zip(records, stay, strict=True)
            if stays and (record[6] or not passed or header.base_offset + record[3] >= end_offset)
        ]

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
        producer_id = header.producer_id
        if producer_id < 0 or header.is_control:
            return False
        newest_offset = self._dirty.producers.get(producer_id)
        if newest_offset is not None:
            return newest_offset == header.last_offset
        # From before the dirty part, in which the producer wrote nothing.
        return (
            header.base_offset < self._dirty.first_offset
            and header.max_timestamp_ms > self._producers_since_ms
        )

    def _filter_legacy(self, message: bytes, header: BatchHeader, place: int) -> None:
        records = decode_records(message, header)
        stay = self._last_of_key([(each.offset, each.key) for each in records], place)
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


def _short_key(buffer: bytes, at: int, stop: int) -> tuple[int, int]:
    """Where the key of a batch's one record begins and ends, or (0, 0) if it is no usual one.

    Usual is: no times of its own, a key whose length is one byte, and something behind it.
    """
    # The record's length, in one byte or two; attributes, two deltas, the key's length.
    start = at + (62 if buffer[at + 61] < 128 else 63)
    size = buffer[start + 3]
    key_end = start + 4 + (size >> 1)
    if (
        buffer[start - 1] > 127
        or buffer[start + 1]
        or buffer[start + 2]
        or size & 129
        or key_end + 1 >= stop
    ):
        return 0, 0
    return start + 4, key_end
