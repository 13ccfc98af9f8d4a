"""Acquire records of a share partition for a member [share-partitions/acquisition].

What was read from the log is given as the offsets of its batches. Records that are available again
come first in the order of offsets, then those that were never acquired.

Batch-optimised, a member gets whole batches of the log: its own limit, and that of records in
flight, may be exceeded by the rest of one batch. Record-limited, it gets no more than it has asked
for; the rest of the last batch is in flight and available.

**Suspects.** A record that was delivered often without an end may be one that its consumers cannot
process, and take others with it: a member that dies loses all that it has acquired. From half of
the delivery limit on, a batch is delivered alone and in ever smaller parts; at the last attempt, a
record travels alone [share-partitions/suspects].
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.share_partition.in_flight import InFlightBatch, InFlightState
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import ACQUIRED, AVAILABLE

# With so few attempts no record is a suspect.
_TOO_FEW_ATTEMPTS = 2


class LogBatch(NamedTuple):
    """The offsets of a batch of the log.

    Attributes:
        base_offset, last_offset: the first and last record of it.
    """

    base_offset: int
    last_offset: int


class AcquiredRecords(NamedTuple):
    """Records that a member has acquired.

    Attributes:
        first_offset, last_offset: the records.
        delivery_count: how often they were delivered, this time included.
    """

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquisition(NamedTuple):
    """What a member asks for, and the settings of its group.

    Attributes:
        member_id: the member.
        max_records: how many records it wants.
        batch_size: batch-optimised, an entry of the answer ends at the first border of a log batch
            behind so many records.
        by_records: whether `max_records` is exact.
        max_in_flight: the limit of records in flight [share-partitions/in-flight-limit].
        delivery_limit: how often a record is delivered at most.
        lock_deadline_ms: when the locks expire.
    """

    member_id: str
    max_records: int
    batch_size: int
    by_records: bool
    max_in_flight: int
    delivery_limit: int
    lock_deadline_ms: int


def suspect_threshold(delivery_limit: int) -> int:
    """Return from which delivery count on a record is a suspect."""
    return max(2, (delivery_limit + 1) // 2)


def acquire(
    partition: SharePartition,
    asked: Acquisition,
    fetch_offset: int,
    log_batches: Sequence[LogBatch],
    aborted: Sequence[LogBatch] = (),
) -> list[AcquiredRecords]:
    """Acquire records that were read from the log.

    Args:
        partition: the share partition.
        asked: what the member asks for.
        fetch_offset: where reading began.
        log_batches: the batches that were read, in order.
        aborted: those of aborted transactions, if the group reads committed records only.

    Returns:
        The acquired records in order.
    """
    if not log_batches or asked.max_records <= 0:
        return []
    taking = _Taking(partition, asked, log_batches)
    _archive_compacted(partition, fetch_offset, log_batches[0].base_offset)
    last_offset = log_batches[-1].last_offset
    left = asked.max_in_flight - partition.in_flight_records
    if left <= 0:
        if fetch_offset > partition.end_offset:
            return []
        last_offset = min(last_offset, partition.end_offset)
        left = partition.end_offset - fetch_offset + 1
    taking.left = min(asked.max_records, left)
    taking.walk(last_offset)
    for batch in aborted:
        _archive_aborted(partition, batch, taking.acquired)
    if partition.in_flight_records >= asked.max_in_flight:
        # Otherwise the start offset moves with the next write, as in Kafka. Where aborted records
        # alone reach the limit there would be none, and nothing would be acquired any more.
        partition.advance()
    return _joined(taking.acquired, taking.borders, aborted)


class _Taking:
    """One acquisition in progress.

    Attributes:
        partition: the share partition.
        asked: what is asked for.
        log_batches: what was read.
        left: how many more records may be acquired.
        acquired: what was acquired.
        borders: the first offsets of batches. Entries of the answer that begin there stay apart.
    """

    __slots__ = ("acquired", "asked", "borders", "left", "log_batches", "partition")

    def __init__(
        self, partition: SharePartition, asked: Acquisition, log_batches: Sequence[LogBatch]
    ) -> None:
        self.partition = partition
        self.asked = asked
        self.log_batches = log_batches
        self.left = 0
        self.acquired: list[AcquiredRecords] = []
        self.borders: set[int] = set()

    def walk(self, last_offset: int) -> None:
        """Acquire what was read, up to an offset."""
        partition = self.partition
        base_offset = max(self.log_batches[0].base_offset, partition.start_offset)
        behind = base_offset
        for batch in partition.batches.within(base_offset, last_offset):
            if batch.first_offset > behind:
                self._take_unread(behind, batch.first_offset - 1)
            if self.left <= 0:
                return
            self._take_again(batch, base_offset, last_offset)
            if self.left <= 0:
                return
            behind = batch.last_offset + 1
        if behind <= last_offset:
            if behind <= partition.end_offset:
                self._take_unread(behind, min(last_offset, partition.end_offset))
                behind = partition.end_offset + 1 if partition.batches else behind
            if behind <= last_offset:
                self._take_new(behind, last_offset)

    # -- records that were acquired before -------------------------------------------------------

    def _take_again(self, batch: InFlightBatch, first_offset: int, last_offset: int) -> None:
        """Acquire what is available of a batch in flight."""
        states = batch.states_within(first_offset, last_offset)
        is_suspect = self._has_suspects(states)
        if is_suspect and self.acquired:
            # It is delivered alone, the next time.
            self.left = 0
            return
        is_whole = first_offset <= batch.first_offset and batch.last_offset <= last_offset
        too_many = self.asked.by_records and batch.records > self.left
        if not batch.is_split:
            state = batch.states[0]
            if not state.can_be_acquired:
                return
            if is_whole and not too_many and not is_suspect:
                self.borders.add(batch.first_offset)
                self._take(state)
                self.left -= state.records
                return
        states = self.partition.split(batch, first_offset, last_offset)
        self.borders.add(batch.first_offset)
        taken = self._take_records(batch, states)
        self.left -= taken
        if is_suspect and taken:
            self.left = 0

    def _has_suspects(self, states: Sequence[InFlightState]) -> bool:
        threshold = suspect_threshold(self.asked.delivery_limit)
        return any(each.can_be_acquired and each.delivery_count >= threshold for each in states)

    def _take_records(self, batch: InFlightBatch, states: Sequence[InFlightState]) -> int:
        """Acquire records of a batch one by one; return how many.

        Args:
            batch: the batch.
            states: its records that were read.
        """
        limit = self.asked.delivery_limit
        threshold = suspect_threshold(limit)
        isolates = limit > _TOO_FEW_ATTEMPTS
        most = self.left if self.asked.by_records else batch.records
        part = 0
        taken = 0
        for state in states:
            if not state.can_be_acquired:
                continue
            is_last_attempt = isolates and state.delivery_count == limit - 1
            if taken and is_last_attempt:
                break
            if state.delivery_count >= threshold and not part:
                # A half of the batch, then a quarter, and so on; the first suspect decides. As in
                # Kafka, more records than that before it let the rest of the batch travel, too.
                part = max(1, batch.records >> (state.delivery_count - threshold + 1))
            wanted = part if taken < part < most else most
            wanted = 1 if is_last_attempt else wanted - taken
            if state.records > wanted:
                self.partition.split(batch, state.first_offset, state.first_offset + wanted - 1)
            self._take(state)
            taken += state.records
            if is_last_attempt or taken in (most, part):
                break
        return taken

    def _take(self, state: InFlightState) -> None:
        state.state = ACQUIRED
        state.member_id = self.asked.member_id
        state.delivery_count += 1
        self.partition.lock(state, self.asked.lock_deadline_ms)
        self.acquired.append(
            AcquiredRecords(state.first_offset, state.last_offset, state.delivery_count)
        )

    # -- records that are acquired for the first time --------------------------------------------

    def _take_unread(self, first_offset: int, last_offset: int) -> None:
        """Acquire what was read of the ranges that were skipped by what was restored."""
        for first, last in list(self.partition.unread):
            begin, end = max(first, first_offset), min(last, last_offset)
            if begin <= end and self.left > 0:
                self._take_new(begin, end)

    def _take_new(self, first_offset: int, last_offset: int) -> None:
        """Acquire records that are not in flight, whole batches of the log at a time."""
        partition, asked = self.partition, self.asked
        last_in_flight = last_offset
        if self.left < last_offset - first_offset + 1:
            last_in_flight = min(last_offset, self._batch_end(first_offset + self.left - 1))
        if last_in_flight < first_offset:
            return
        if not partition.batches:
            partition.start_offset = first_offset
        records = last_in_flight - first_offset + 1
        self.borders.add(first_offset)
        if asked.by_records:
            batch = InFlightBatch(InFlightState(first_offset, last_in_flight, AVAILABLE, 0))
            partition.batches.add(batch)
            if records > self.left:
                partition.split(batch, first_offset, first_offset + self.left - 1)
            state = batch.states[0]
            self._take(state)
            self.left -= state.records
        else:
            for begin, end in self._entries(first_offset, last_in_flight):
                self.borders.add(begin)
                state = InFlightState(begin, end, AVAILABLE, 0)
                partition.batches.add(InFlightBatch(state))
                self._take(state)
            self.left -= records
        partition.end_offset = max(partition.end_offset, last_in_flight)
        partition.read_to(last_in_flight)

    def _batch_end(self, offset: int) -> int:
        """Return the end of the last batch of the log that begins at or before an offset."""
        last_offset = self.log_batches[0].last_offset
        for batch in self.log_batches:
            if batch.base_offset > offset:
                break
            last_offset = batch.last_offset
        return last_offset

    def _entries(self, first_offset: int, last_offset: int) -> list[tuple[int, int]]:
        """Cut a range at borders of log batches into entries of at least `batch_size` records."""
        entries = []
        begin = first_offset
        least = max(1, self.asked.batch_size)
        for batch in self.log_batches:
            if batch.base_offset > last_offset:
                break
            if batch.base_offset - begin >= least:
                entries.append((begin, batch.base_offset - 1))
                begin = batch.base_offset
        entries.append((begin, last_offset))
        return entries


def _archive_compacted(partition: SharePartition, fetch_offset: int, base_offset: int) -> None:
    """Archive what was to be read and is no longer in the log [share-partitions/fetch-offset]."""
    if base_offset <= fetch_offset:
        return
    for batch in partition.batches.within(fetch_offset, base_offset - 1):
        if not batch.is_split and batch.last_offset >= base_offset:
            # The log begins within it: it is delivered, and its member reports the gap.
            continue
        states = batch.states
        if batch.is_split:
            states = partition.split(batch, fetch_offset, base_offset - 1)
        for state in states:
            if state.can_be_acquired:
                partition.archive(state)
    partition.read_to(base_offset - 1)
    partition.advance()


def _archive_aborted(
    partition: SharePartition, aborted: LogBatch, acquired: list[AcquiredRecords]
) -> None:
    """Archive what was acquired of a batch of an aborted transaction."""
    for entry in acquired:
        first = max(entry.first_offset, aborted.base_offset)
        last = min(entry.last_offset, aborted.last_offset)
        if first > last:
            continue
        for batch in partition.batches.within(first, last):
            states = batch.states
            if batch.first_offset < first or batch.last_offset > last:
                states = partition.split(batch, first, last)
            for state in states:
                if state.state is ACQUIRED and state.writing is None:
                    partition.archive(state)


def _joined(
    acquired: list[AcquiredRecords], borders: set[int], aborted: Sequence[LogBatch]
) -> list[AcquiredRecords]:
    """Join neighbours with equal counts that have no border between, and cut aborted ones out."""
    joined: list[AcquiredRecords] = []
    for entry in acquired:
        for part in _without(entry, aborted):
            last = joined[-1] if joined else None
            if (
                last is not None
                and part.first_offset not in borders
                and part.delivery_count == last.delivery_count
                and part.first_offset == last.last_offset + 1
            ):
                joined[-1] = last._replace(last_offset=part.last_offset)
            else:
                joined.append(part)
    return joined


def _without(entry: AcquiredRecords, aborted: Sequence[LogBatch]) -> list[AcquiredRecords]:
    """Return what is left of acquired records without those of aborted transactions."""
    parts = []
    begin = entry.first_offset
    for batch in aborted:
        if batch.last_offset < begin or batch.base_offset > entry.last_offset:
            continue
        if batch.base_offset > begin:
            parts.append(entry._replace(first_offset=begin, last_offset=batch.base_offset - 1))
        begin = batch.last_offset + 1
    if begin <= entry.last_offset:
        parts.append(entry._replace(first_offset=begin))
    return parts
