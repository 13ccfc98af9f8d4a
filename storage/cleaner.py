"""Compaction of one log, in small steps (Kafka's LogCleaner and Cleaner; spec section 14.4).

A cleaning maps the keys of the dirty part (`dirty_part.py`), writes what stays of all segments up
to its end into new ones (`retained.py`), several small ones into one, and swaps those in group by
group (`swap.py`). Offsets stay, the active segment is never touched.

The caller drives it: `for step in cleaning`, each step a slice of the log, about a millisecond of
work. Between two steps anything may happen to the log: appends, rolls, deletions, reads. A segment
that goes meanwhile ends the cleaning, which did no harm. Nothing is acknowledged here, so a full
disk or a damaged batch leaves the log as it was; only what fails after old files began to be
removed fails the log.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.storage.batches import BadBatch
from coterie.storage.dirty_part import DirtyPart, DirtyPartConfig
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File
from coterie.storage.index import MAX_RELATIVE_OFFSET
from coterie.storage.log import Log
from coterie.storage.retained import BatchFilter
from coterie.storage.segment import Segment
from coterie.storage.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX
from coterie.storage.swap import PendingDisk, removal


class CleanerConfig(NamedTuple):
    """The settings of one log's cleaning, with Kafka's defaults.

    The field comments name Kafka's settings.
    """

    # delete.retention.ms: how long tombstones and markers stay after the first cleaning.
    delete_retention_ms: int = 24 * 3600 * 1000
    # min.compaction.lag.ms: how long a record stays whatever comes after it.
    min_compaction_lag_ms: int = 0
    # max.compaction.lag.ms: after how long a record is cleaned whatever the dirty ratio.
    max_compaction_lag_ms: int = (1 << 63) - 1
    # min.cleanable.dirty.ratio: the dirty part of the whole from which on cleaning pays.
    min_cleanable_ratio: float = 0.5
    # segment.bytes: cleaned segments are merged up to this size.
    segment_bytes: int = 1 << 30
    # producer.id.expiration.ms: how long after its last batch a producer counts as active.
    producer_expiration_ms: int = 24 * 3600 * 1000
    # log.cleaner.dedupe.buffer.size, which is 128 MiB in Kafka: the map, see `offset_map.py` for
    # how many keys that is. What does not fit is cleaned next time.
    max_map_bytes: int = 32 << 20
    # What one step reads: half a millisecond at 60 MB/s.
    slice_bytes: int = 32 << 10


class Cleanable(NamedTuple):
    """What there is to clean in a log.

    Attributes:
        first_dirty_offset: everything before it has been cleaned.
        end_offset: where what may be cleaned ends.
        clean_bytes: the segments before the first dirty offset.
        dirty_bytes: the segments from there to the end offset.
        must_clean: whether max.compaction.lag.ms has passed.
        due: whether to clean now.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    must_clean: bool
    due: bool

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes to all bytes that a cleaning would read."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


class Step(NamedTuple):
    """What one step did, and what the caller does before the next: `pending.run()`, if any."""

    bytes_done: int
    pending: PendingDisk | None = None


class CleaningResult:
    """What a cleaning did. `first_dirty_offset` holds when its iterator has ended."""

    def __init__(self, first_dirty_offset: int, segments: int) -> None:
        # Where the next cleaning's dirty part begins; the same as before if an open transaction is
        # in the way of everything.
        self.first_dirty_offset = first_dirty_offset
        self.bytes_read = self.bytes_written = 0
        self.records_read = self.records_kept = self.tombstones_kept = 0
        self.segments_before = self.segments_after = segments
        # There are more keys than the map holds: there is more to clean at once.
        self.map_full = False
        # A segment went away, or the log failed: the rest was left as it was.
        self.abandoned = False


def cleanable(log: Log, first_dirty_offset: int, now_ms: int, config: CleanerConfig) -> Cleanable:
    """What may be cleaned now, as Kafka's LogCleanerManager tells it.

    Args:
        log: an open log.
        first_dirty_offset: from the cleaner's checkpoint; one outside of the log is put right.
        now_ms: epoch milliseconds.
        config: the log's settings.

    Raises:
        CorruptLog: a segment whose times had to be looked at is damaged.
    """
    segments = log.segments
    if not log.log_start_offset <= first_dirty_offset <= log.log_end_offset:
        first_dirty_offset = log.log_start_offset
    end_offset = segments[-1].base_offset
    older = segments[:-1]
    if config.min_compaction_lag_ms > 0:
        for segment in older:
            young_ms = now_ms - config.min_compaction_lag_ms
            if segment.next_offset <= first_dirty_offset or not segment.size:
                continue
            greatest_ms, _ = segment.max_timestamp()
            if greatest_ms > young_ms:
                end_offset = segment.base_offset
                break
    end_offset = max(end_offset, first_dirty_offset)
    if log.swap_unfinished:
        # What is left of its files is put in order when the log is opened again.
        end_offset = first_dirty_offset
    clean = [each for each in older if each.base_offset < first_dirty_offset]
    dirty = [each for each in older if first_dirty_offset < each.next_offset <= end_offset]
    clean_bytes = sum(each.size for each in clean)
    dirty_bytes = sum(each.size for each in dirty)
    must_clean = False
    if config.max_compaction_lag_ms < CleanerConfig().max_compaction_lag_ms:
        since_ms = now_ms - config.max_compaction_lag_ms
        must_clean = any(0 < each.first_batch_timestamp() < since_ms for each in dirty)
    found = Cleanable(
        first_dirty_offset, end_offset, clean_bytes, dirty_bytes, must_clean, due=False
    )
    due = dirty_bytes > 0 and (must_clean or found.dirty_ratio >= config.min_cleanable_ratio)
    return found._replace(due=due and not log.failed)


class Cleaning:
    """One cleaning of one log: iterate over it once. The module tells what may happen meanwhile."""

    def __init__(self, log: Log, cleanable: Cleanable, now_ms: int, config: CleanerConfig) -> None:
        """Nothing is read or written yet.

        Args:
            log: an open log; `replace` is done to it.
            cleanable: what the function of that name has just told.
            now_ms: epoch milliseconds, the time from which delete horizons count.
            config: the log's settings.
        """
        self.result = CleaningResult(cleanable.first_dirty_offset, len(log.segments))
        self._log = log
        self._cleanable = cleanable
        self._now_ms = now_ms
        self._config = config
        self._steps = self._guarded()
        # What is being written, and its file, pinned until it is synced.
        self._cleaned: Segment | None = None
        self._file: File | None = None
        # Old segments have begun to be removed: there is no way back.
        self._swapping = False
        # The segment that is being read, to name in errors.
        self._reading: Segment | None = None
        # What is still to be read or replaced.
        self._expected: list[Segment] = []

    def __iter__(self) -> Iterator[Step]:
        """The steps.

        Raises:
            CorruptLog: a batch is damaged.
            LogFailed: old and new segments could not be exchanged; a restart finishes that.
            OSError: anything else; the log is as it was.
        """
        return self._steps

    def fail(self, error: OSError) -> None:
        """Take the error of a step's `pending.run()`; the cleaning is over.

        Raises:
            LogFailed: the log has failed with it.
        """
        if self._swapping:
            raise self._log.fail(error)
        self.abandon()

    def abandon(self) -> None:
        """Stop here, and remove what was being written; nothing happens when the end was reached.

        In the middle of a swap the rest is left to the next start: the log can be used until then,
        but is not cleaned again.
        """
        cleaned, self._cleaned = self._cleaned, None
        if self._file is not None:
            self._log.files.unpin(self._file)
            self._file = None
        if cleaned is None:
            return
        if self._swapping:
            self._log.swap_unfinished = True
            return
        try:
            cleaned.remove()
        except OSError:
            # What can't be removed now is removed at the next start, or overwritten.
            cleaned.release()

    # Below: the steps.

    def _guarded(self) -> Iterator[Step]:
        try:
            for step in self._run():
                yield step
                if not self._swapping and (self._log.failed or not self._present()):
                    self.result.abandoned = True
                    break
        except (BadBatch, MalformedFrame) as bad:
            assert self._reading is not None, "only a segment's batches are bad"
            position = bad.position if isinstance(bad, BadBatch) else 0
            reason = bad.reason if isinstance(bad, BadBatch) else str(bad)
            raise CorruptLog(self._reading.path, position, reason) from None
        finally:
            self.abandon()

    def _run(self) -> Iterator[Step]:
        found, config, log = self._cleanable, self._config, self._log
        if log.swap_unfinished:
            self.result.abandoned = True
            return
        since_ms = self._now_ms - config.producer_expiration_ms
        self._expected = [each for each in log.segments if each.next_offset <= found.end_offset]
        dirty = DirtyPart(
            log.files,
            [each for each in self._expected if each.next_offset > found.first_dirty_offset],
            found.first_dirty_offset,
            found.end_offset,
            DirtyPartConfig(config.slice_bytes, config.max_map_bytes, since_ms),
        )
        for segment, length in dirty.steps():
            self._reading = segment
            if length:
                yield Step(length)
        self.result.map_full = dirty.map_full
        if dirty.end_offset <= found.first_dirty_offset:
            return
        batches = BatchFilter(
            dirty, found.end_offset, self._now_ms, config.delete_retention_ms, since_ms
        )
        cleaned = [each for each in self._expected if each.base_offset < dirty.end_offset]
        for group in grouped(cleaned, config.segment_bytes):
            yield from self._clean_group(group, dirty, batches)
        self.result.first_dirty_offset = dirty.end_offset

    def _present(self) -> bool:
        """Whether all segments that are still to be read or replaced are those of the log."""
        # Segments go from the front, so the first stands for all.
        return not self._expected or self._log.holds(self._expected[0])

    def _clean_group(
        self, group: Sequence[Segment], dirty: DirtyPart, batches: BatchFilter
    ) -> Iterator[Step]:
        log = self._log
        cleaned = self._cleaned = log.new_segment(group[0].base_offset, CLEANED_SUFFIX)
        cleaned.create()
        self._file = log.files.pin(cleaned.path)
        for segment in group:
            self._reading = segment
            for taken in batches.steps(log.files, segment, self._config.slice_bytes):
                data, facts = batches.take()
                if facts:
                    cleaned.append(data, facts)
                self._count(dirty, batches)
                yield Step(taken)
        cleaned.finish()
        cleaned.next_offset = group[-1].next_offset
        yield from self._swap(group, cleaned)

    def _swap(self, group: Sequence[Segment], cleaned: Segment) -> Iterator[Step]:
        """The steps of `swap.py`, with the log's view of its segments changed after the first."""
        log, filesystem = self._log, self._log.files.filesystem
        yield Step(0, PendingDisk(filesystem, file=self._file))
        assert self._file is not None, "it was pinned when it was made"
        log.files.unpin(self._file)
        self._file = None
        cleaned.rename(SWAP_SUFFIX)
        yield Step(0, PendingDisk(filesystem, directory=log.directory))
        log.replace(group, cleaned)
        self._swapping = True
        self._expected = [each for each in self._expected if each not in group]
        yield Step(0, removal(filesystem, log.directory, group))
        if log.holds(cleaned):
            try:
                cleaned.rename("")
            except OSError as error:
                raise log.fail(error) from error
            yield Step(0, PendingDisk(filesystem, directory=log.directory))
        self._swapping = False
        self._cleaned = None
        self.result.segments_after += 1 - len(group)

    def _count(self, dirty: DirtyPart, batches: BatchFilter) -> None:
        result = self.result
        result.bytes_read, result.bytes_written = batches.bytes_read, batches.bytes_written
        # Records that were mapped are looked at twice, and counted once.
        result.records_read = dirty.records_read + batches.records_read
        result.records_kept = batches.records_kept
        result.tombstones_kept = batches.tombstones_kept


def grouped(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Neighbours to be cleaned into one segment: Kafka's groupSegmentsBySize.

    Together they are no longer than a segment may be, and offsets fit into the indexes' 32 bits.
    Kafka also bounds the sum of their indexes, whose files have a fixed size there.
    """
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if (
            groups
            and size + segment.size <= max_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def clean(
    log: Log,
    first_dirty_offset: int,
    now_ms: int,
    config: CleanerConfig,
    count_bytes: Callable[[int], None] = lambda _: None,
) -> CleaningResult | None:
    """Clean what can be cleaned, all at once and whatever the dirty ratio; None if nothing can.

    Args:
        log, now_ms, config: see `Cleaning`.
        first_dirty_offset: see `cleanable`.
        count_bytes: called after each step with the number of bytes that it read or wrote.

    Raises:
        CorruptLog, LogFailed, OSError: as a `Cleaning`'s iterator.
    """
    found = cleanable(log, first_dirty_offset, now_ms, config)
    if not found.dirty_bytes:
        return None
    cleaning = Cleaning(log, found, now_ms, config)
    try:
        for step in cleaning:
            if step.pending is not None:
                try:
                    step.pending.run()
                except OSError as error:
                    cleaning.fail(error)
                    raise
            count_bytes(step.bytes_done)
    finally:
        cleaning.abandon()
    return cleaning.result
