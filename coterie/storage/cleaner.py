"""Compaction of one log, in small steps (Kafka's LogCleaner and Cleaner).

A cleaning maps the keys of the dirty part (`dirty_part.py`), writes what stays of all segments up
to its end into new ones (`retained.py`), several small ones into one, and swaps those in, group by
group (`swap.py`).

The caller drives it: `for step in cleaning`, where each step reads a slice of the log. Between two
steps anything may happen to the log. A full disk or a damaged batch ends the
cleaning and leaves the log as it was; only an error after old files have begun to be removed fails
the log [compaction/steps].
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.storage.batches import BadBatch
from coterie.storage.cleanable import Cleanable, CleanerConfig, cleanable
from coterie.storage.dirty_part import DirtyPart, DirtyPartConfig
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File
from coterie.storage.index import MAX_RELATIVE_OFFSET
from coterie.storage.log import Log
from coterie.storage.retained import BatchFilter
from coterie.storage.segment import Segment
from coterie.storage.segment_files import CLEANED_SUFFIX
from coterie.storage.swap import PendingDisk, removal


class CleaningStep(NamedTuple):
    """One step of a cleaning.

    Attributes:
        bytes_done: the bytes that were read.
        pending: work that has to be run before the next step.
    """

    bytes_done: int
    pending: PendingDisk | None = None


class CleaningResult:
    """What a cleaning did.

    Attributes:
        first_dirty_offset: where the dirty part of the next cleaning begins, once this cleaning has
            ended. It is the same as before if an open transaction prevents any cleaning.
        bytes_read, bytes_written: by the second pass.
        records_read, records_kept, tombstones_kept: each record counts once.
        segments_before, segments_after: of the log.
        map_full: whether there are more keys than the map holds, so that there is more to clean.
        abandoned: whether a segment was removed or the log failed during the cleaning. The rest of
            the log was left as it was.
    """

    def __init__(self, first_dirty_offset: int, segments: int) -> None:
        self.first_dirty_offset = first_dirty_offset
        self.bytes_read = self.bytes_written = 0
        self.records_read = self.records_kept = self.tombstones_kept = 0
        self.segments_before = self.segments_after = segments
        self.map_full = False
        self.abandoned = False


class Cleaning:
    """One cleaning of one log. Iterate over it once.

    Attributes:
        result: what the cleaning has done so far.
    """

    def __init__(self, log: Log, cleanable: Cleanable, now_ms: int, config: CleanerConfig) -> None:
        """Nothing is read or written yet.

        Args:
            log: an open log.
            cleanable: the part of the log to clean, as it is now.
            now_ms: epoch milliseconds, the time from which delete horizons count.
            config: the settings.
        """
        first_offset = cleanable.first_dirty_offset
        assert first_offset <= cleanable.end_offset, "the dirty part begins before it ends"
        self.result = CleaningResult(first_offset, len(log.segments))
        self._log = log
        self._cleanable = cleanable
        self._now_ms = now_ms
        self._config = config
        self._steps = self._guarded()
        # The segment that is being written, and its file, which is pinned until it is synced.
        self._cleaned: Segment | None = None
        self._file: File | None = None
        # Old segments have begun to be removed, so the log cannot be left as it was.
        self._is_swapping = False
        # The segment that is being read, for errors.
        self._reading: Segment | None = None
        # The segments that are still to be read or replaced.
        self._expected: list[Segment] = []

    def __iter__(self) -> Iterator[CleaningStep]:
        """Return the steps.

        Raises:
            CorruptLog: a batch is damaged.
            LogFailed: old and new segments could not be exchanged. A restart finishes that.
            OSError: anything else failed. The log is as it was.
        """
        return self._steps

    def fail(self, error: OSError) -> None:
        """End the cleaning because the pending work of a step has failed.

        Raises:
            LogFailed: the log has failed, too.
        """
        if self._is_swapping:
            raise self._log.fail(error)
        self.abandon()

    def abandon(self) -> None:
        """End the cleaning and remove what it was writing. After its end nothing happens.

        A swap that has begun is finished by the next start. Until then the log can be used, and is
        not cleaned again.
        """
        cleaned, self._cleaned = self._cleaned, None
        if self._file is not None:
            self._log.files.unpin(self._file)
            self._file = None
        if cleaned is None:
            return
        if self._is_swapping:
            self._log.swap_unfinished = True
            return
        try:
            cleaned.remove()
        except OSError:
            # The next start removes the files, or the next cleaning overwrites them.
            cleaned.release()

    # --- the steps --------------------------------------------------------------------------------

    def _guarded(self) -> Iterator[CleaningStep]:
        try:
            for step in self._run():
                yield step
                if not self._is_swapping and (self._log.failed or not self._segments_exist()):
                    self.result.abandoned = True
                    break
        except (BadBatch, MalformedFrame) as bad:
            assert self._reading is not None, "only batches of a segment are bad"
            position = bad.position if isinstance(bad, BadBatch) else 0
            reason = bad.reason if isinstance(bad, BadBatch) else str(bad)
            raise CorruptLog(self._reading.path, position, reason) from None
        finally:
            self.abandon()

    def _run(self) -> Iterator[CleaningStep]:
        found, config, log = self._cleanable, self._config, self._log
        if log.swap_unfinished:
            self.result.abandoned = True
            return
        self._expected = [each for each in log.segments if each.next_offset <= found.end_offset]
        dirty = DirtyPart(
            log,
            [each for each in self._expected if each.next_offset > found.first_dirty_offset],
            found.first_dirty_offset,
            found.end_offset,
            DirtyPartConfig(config.slice_bytes, config.max_map_bytes),
        )
        for segment, length in dirty.steps():
            self._reading = segment
            if length:
                yield CleaningStep(length)
        self.result.map_full = dirty.map_full
        if dirty.end_offset <= found.first_dirty_offset:
            return
        batches = BatchFilter(
            log, dirty, found.end_offset, self._now_ms, config.delete_retention_ms
        )
        cleaned = [each for each in self._expected if each.base_offset < dirty.end_offset]
        for group in grouped(cleaned, config.segment_bytes):
            yield from self._clean_group(group, dirty, batches)
        assert not self._is_swapping, "each swap has ended when the cleaning ends"
        assert self._cleaned is None, "each cleaned segment is part of the log"
        log.prune_snapshots()
        assert dirty.end_offset <= found.end_offset, "a cleaning ends where it may"
        self.result.first_dirty_offset = dirty.end_offset

    def _segments_exist(self) -> bool:
        """Return whether the segments that are still needed are all part of the log."""
        # Segments are removed from the front, so it is enough to check the first.
        return not self._expected or self._log.holds(self._expected[0])

    def _clean_group(
        self, group: Sequence[Segment], dirty: DirtyPart, batches: BatchFilter
    ) -> Iterator[CleaningStep]:
        """Write what stays of neighbouring segments into one, and swap it in."""
        log = self._log
        assert group, "a group has at least one segment"
        assert self._cleaned is None, "one group is cleaned at a time"
        assert self._file is None, "the file of the group before is not pinned any more"
        cleaned = self._cleaned = log.new_segment(group[0].base_offset, CLEANED_SUFFIX)
        cleaned.create()
        self._file = log.files.pin(cleaned.path)
        for segment in group:
            self._reading = segment
            for taken in batches.steps(log.files, segment, self._config.slice_bytes):
                assert taken > 0, "each step reads whole batches"
                data, facts, aborted = batches.take()
                if facts:
                    cleaned.append(data, facts[-1], facts[:-1])
                for transaction in aborted:
                    cleaned.transactions.add(transaction)
                self._count(dirty, batches)
                yield CleaningStep(taken)
        cleaned.transactions.sync()
        cleaned.finish()
        assert cleaned.next_offset <= group[-1].next_offset, "a cleaning adds no offsets"
        cleaned.next_offset = group[-1].next_offset
        yield from self._swap(group, cleaned)

    def _swap(self, group: Sequence[Segment], cleaned: Segment) -> Iterator[CleaningStep]:
        """Do the steps of `swap.py`. The log uses the new segment after the first of them."""
        log, filesystem = self._log, self._log.files.filesystem
        base_offset, entry = cleaned.base_offset, cleaned.entry
        first = log.digests.replacing(base_offset, entry)
        yield CleaningStep(0, PendingDisk(filesystem, file=self._file, first=first))
        assert self._file is not None, "it was pinned when it was made"
        log.files.unpin(self._file)
        self._file = None
        log.begin_swap(group, cleaned)
        yield CleaningStep(0, PendingDisk(filesystem, directory=log.directory))
        log.replace(group, cleaned)
        assert log.holds(cleaned), "the log reads the cleaned segment from now on"
        log.digests.replaced([segment.base_offset for segment in group], entry)
        assert not self._is_swapping, "one swap ends before the next begins"
        self._is_swapping = True
        self._expected = [each for each in self._expected if each not in group]
        yield CleaningStep(0, removal(filesystem, log.directory, group))
        if log.holds(cleaned):
            try:
                cleaned.rename("")
            except OSError as error:
                raise log.fail(error) from error
            yield CleaningStep(0, PendingDisk(filesystem, directory=log.directory))
        log.digests.swapped()
        self._is_swapping = False
        self._cleaned = None
        self.result.segments_after += 1 - len(group)
        assert self.result.segments_after > 1, "a group leaves its segment and the active one"

    def _count(self, dirty: DirtyPart, batches: BatchFilter) -> None:
        result = self.result
        assert batches.bytes_read >= result.bytes_read, "what was read never gets less"
        assert batches.bytes_written >= result.bytes_written, "what was written never gets less"
        result.bytes_read, result.bytes_written = batches.bytes_read, batches.bytes_written
        # Records that were mapped are read twice, and counted once.
        result.records_read = dirty.records_read + batches.records_read
        result.records_kept = batches.records_kept
        result.tombstones_kept = batches.tombstones_kept


def grouped(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Return groups of neighbours, each to be cleaned into one segment [compaction/two-passes].

    Kafka also limits the sum of their indexes, because its index files have a fixed size.

    Args:
        segments: in order.
        max_bytes: the greatest size of a group, except of a single segment.
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
    assert not segments or groups[0][0] is segments[0], "the groups begin with the first segment"
    assert not segments or groups[-1][-1] is segments[-1], "the groups end with the last segment"
    return groups


def clean(
    log: Log,
    first_dirty_offset: int,
    now_ms: int,
    config: CleanerConfig,
    count_bytes: Callable[[int], None] = lambda _: None,
) -> CleaningResult | None:
    """Clean everything that may be cleaned, here and now, whatever the dirty ratio is.

    Args:
        log: an open log.
        first_dirty_offset: from the cleaner's checkpoint.
        now_ms: epoch milliseconds.
        config: the settings.
        count_bytes: called after each step with the number of bytes that it read.

    Returns:
        What was done; None if there was nothing to clean.

    Raises:
        CorruptLog, LogFailed, OSError: as the steps of a `Cleaning`.
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
