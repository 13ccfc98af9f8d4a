"""Compaction beside live traffic, in slices of half a millisecond.

The cleaning itself (storage/cleaner.py) is an iterator of small steps. They run on the event loop,
a slice at a time. After a slice the loop serves clients for three times as long, and for as long as
`log.cleaner.io.max.bytes.per.second` requires (ADR 6). Steps that wait for the disk run in a
thread. As in Kafka, the log with the largest share of uncleaned bytes comes first
[compaction/cleanable-part].

Invariants: one log is cleaned at a time; cleanable_logs.py says which. The checkpoint of the
cleaner is written after the swap, so losing it costs work and nothing else. Appends and reads
continue during a cleaning.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from coterie.server.loggers import CLEANER
from coterie.server.logs.cleanable_logs import CleanableLogs
from coterie.server.logs.partition import Partition
from coterie.server.services import SharedServices
from coterie.server.workers import once
from coterie.storage.cleanable import Cleanable
from coterie.storage.cleaner import Cleaning, CleaningStep
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import LogFailed, StorageError, is_shortage

if TYPE_CHECKING:
    import asyncio


# How long a slice holds the event loop; one more step may take as long again. To a client this is
# like fifty heartbeats before its own.
SLICE_S = 0.0005
# After a slice the loop is left alone for this many times its duration, so cleaning takes at most a
# quarter of the time.
REST_FACTOR = 3
# The shortest pause between two searches, whatever log.cleaner.backoff.ms is: a search takes about
# 50 us for each compacted log.
MIN_PAUSE_S = 0.01
# How long a cleaning pauses when the group coordinator begins to load the partition.
LOADING_PAUSE_S = 0.05
# How long a cleaning pauses when no file can be opened.
SHORTAGE_PAUSE_S = 0.5


class _Work:
    """The cleaning in progress.

    Attributes:
        ended: only its checkpoint is left to write.
        in_thread: a thread works on it.
    """

    def __init__(
        self, partition: Partition, found: Cleanable, cleaning: Cleaning, began_s: float
    ) -> None:
        self.partition = partition
        self.found = found
        self.cleaning = cleaning
        self.steps: Iterator[CleaningStep] = iter(cleaning)
        self.began_s = began_s
        self.ended = False
        self.in_thread = False


class LogCleaner:
    """Compacts the logs of one broker.

    Attributes:
        cleanings, bytes_read, bytes_written, records_kept: totals since the start.
        last_cleaning_s, longest_cleaning_s: from the first slice of a cleaning to the last.
        max_dirty_ratio: of all logs, at the last search.
        uncleanable: partitions whose last cleaning failed.
    """

    def __init__(self, broker: SharedServices, data: DataDirectory) -> None:
        """Prepare; nothing runs before `start`."""
        self.cleanings = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_kept = 0
        self.last_cleaning_s = 0.0
        self.longest_cleaning_s = 0.0
        self.max_dirty_ratio = 0.0
        self._broker = broker
        self._data = data
        self._logs = CleanableLogs(broker, data)
        self.uncleanable = self._logs.uncleanable
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._found: Iterator[tuple[Partition, Cleanable | None]] = iter(())
        self._filthiest: tuple[Partition, Cleanable] | None = None
        self._greatest_ratio = 0.0
        self._work: _Work | None = None
        self._monotonic_s = broker.environment.monotonic_s
        self._slice_clock_s = broker.environment.slice_clock_s
        self._workers = broker.environment.workers("coterie-cleaner", 1)
        self._rest_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether a log is being cleaned."""
        return self._work is not None

    def start(self) -> None:
        """Search for a log to clean, now and after each pause."""
        self._search()

    def stop(self) -> None:
        """Stop; a cleaning in progress is abandoned."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._abandon()
        self._workers.stop()

    def release(self, partition: Partition) -> None:
        """Leave a partition and its files alone, because it is about to be deleted."""
        self._logs.cleaned(partition)
        work = self._work
        if work is None:
            return
        if work.ended and work.in_thread:
            # The thread writes the checkpoint, from which the deletion removes the topic.
            self._workers.stop()
        if work.partition is partition:
            self._abandon()
            self._later(self._search, 0)

    # --- the search for the filthiest log ---------------------------------------------------------

    def _search(self) -> None:
        """Inspect all logs, a slice at a time, and clean the one that needs it most."""
        self._found = self._logs.search()
        self._filthiest, self._greatest_ratio = None, 0.0
        self._continue_search()

    def _continue_search(self) -> None:
        assert self._work is None, "the next log is looked for when the one before is clean"
        began_s = self._slice_clock_s()
        for partition, found in self._found:
            if found is None:
                self._broker.logs.opener.open_used(partition, self._search_opened)
                return
            ratio = found.dirty_ratio
            self._greatest_ratio = max(self._greatest_ratio, ratio)
            if found.due and (self._filthiest is None or ratio > self._filthiest[1].dirty_ratio):
                self._filthiest = partition, found
            took_s = self._slice_clock_s() - began_s
            if took_s >= SLICE_S:
                self._later(self._continue_search, took_s * REST_FACTOR)
                return
        self.max_dirty_ratio = self._greatest_ratio
        # The search may have taken several slices, in which the partition may have been deleted.
        if self._filthiest is None or not self._logs.may_be_cleaned(self._filthiest[0]):
            self._search_after_backoff()
        else:
            self._begin(*self._filthiest)

    def _search_opened(self) -> None:
        if not self._stopped:
            self._later(self._continue_search, 0)

    def _search_after_backoff(self) -> None:
        backoff_ms = self._broker.config.get_int("log.cleaner.backoff.ms")
        self._later(self._search, max(backoff_ms / 1000, MIN_PAUSE_S))

    # --- one cleaning -----------------------------------------------------------------------------

    def _begin(self, partition: Partition, found: Cleanable) -> None:
        assert self._work is None, "one log is cleaned at a time"
        assert not self._stopped, "nothing is cleaned after the end"
        config = self._logs.cleaner_config(partition.topic.config)
        cleaning = Cleaning(partition.log, found, self._broker.environment.now_ms(), config)
        self._work = _Work(partition, found, cleaning, self._monotonic_s())
        self._slice()

    def _slice(self) -> None:
        """Continue the cleaning for the duration of a slice."""
        work = self._work
        assert work is not None, "a slice belongs to a cleaning"
        assert not work.in_thread, "the event loop waits for the thread before the next slice"
        assert not work.ended, "a cleaning that has ended has no more slices"
        if self._logs.is_loading(work.partition):
            self._later(self._slice, LOADING_PAUSE_S)
            return
        began_s, done_bytes, pending = self._slice_clock_s(), 0, None
        try:
            while pending is None and self._slice_clock_s() - began_s < SLICE_S:
                step = next(work.steps)
                done_bytes += step.bytes_done
                pending = step.pending
        except StopIteration:
            self._finish(work)
            return
        except Exception as error:  # noqa: BLE001 - our mistake must stop only this cleaning
            self._fail(work, error)
            return
        rate = self._broker.config.get_float("log.cleaner.io.max.bytes.per.second")
        self._rest_s = max((self._slice_clock_s() - began_s) * REST_FACTOR, done_bytes / rate)
        if pending is None:
            self._later(self._slice, self._rest_s)
            return
        self._run_in_thread(work, pending.run)

    def _run_in_thread(self, work: _Work, run: Callable[[], None]) -> None:
        """Run what waits for the disk in a thread; `_disk_done` continues on the event loop."""
        assert work is self._work, "a thread works for the cleaning in progress only"
        assert not work.in_thread, "one step waits for the disk at a time"
        work.in_thread = True
        self._workers.submit(once(run), partial(self._disk_done, work, run))

    def _disk_done(self, work: _Work, run: Callable[[], None], error: Exception | None) -> None:
        """Continue after the thread."""
        if work is not self._work:
            # The cleaning was abandoned.
            return
        assert work.in_thread, "a thread reports each step once"
        work.in_thread = False
        if error is None:
            if work.ended:
                self._cleaned(work)
            else:
                self._later(self._slice, self._rest_s)
            return
        if is_shortage(error):
            # All of this work can be repeated, and must be if it has begun to replace files.
            self._later(lambda: self._run_in_thread(work, run), SHORTAGE_PAUSE_S)
            return
        try:
            if isinstance(error, OSError) and not work.ended:
                work.cleaning.fail(error)
        except LogFailed as failure:
            error = failure
        self._fail(work, error)

    def _finish(self, work: _Work) -> None:
        """Write the checkpoint after the last step."""
        partition, result = work.partition, work.cleaning.result
        cleaned_to, found = result.first_dirty_offset, work.found
        assert not work.ended, "a cleaning ends once"
        assert cleaned_to >= found.first_dirty_offset, "what was cleaned stays clean"
        assert cleaned_to <= found.end_offset, "a cleaning ends where the cleanable part ends"
        self.bytes_read += result.bytes_read
        self.bytes_written += result.bytes_written
        self.records_kept += result.records_kept
        if result.abandoned or cleaned_to <= found.first_dirty_offset:
            # Retention or DeleteRecords has removed a segment, or there was nothing to do.
            self._work = None
            self._search_after_backoff()
            return
        work.ended = True
        # In the thread, because the file is synced.
        self._run_in_thread(
            work,
            lambda: self._data.set_cleaner_offset(
                partition.topic.name, partition.index, result.first_dirty_offset
            ),
        )

    def _cleaned(self, work: _Work) -> None:
        """Log a cleaning and search again at once."""
        assert work is self._work, "only the cleaning in progress ends"
        assert work.ended, "the checkpoint is written after the last step"
        self._work = None
        partition, result = work.partition, work.cleaning.result
        took_s = self._monotonic_s() - work.began_s
        self._logs.cleaned(partition)
        self.cleanings += 1
        self.last_cleaning_s = took_s
        self.longest_cleaning_s = max(self.longest_cleaning_s, took_s)
        self._broker.environment.loggers.named(CLEANER).info(
            "log cleaned",
            topic=partition.topic.name,
            partition=partition.index,
            bytes_before=result.bytes_read,
            bytes_after=result.bytes_written,
            records=result.records_kept,
            segments_before=result.segments_before,
            segments_after=result.segments_after,
            to_offset=result.first_dirty_offset,
            took_s=round(took_s, 3),
        )
        self._later(self._search, self._rest_s)

    def _fail(self, work: _Work, error: Exception) -> None:
        """End a cleaning that failed, and search for another log."""
        self._abandon()
        self._logs.failed(work.partition, error)
        self._later(self._search, MIN_PAUSE_S)

    def _abandon(self) -> None:
        """End the cleaning in progress, if there is one, and remove its incomplete files."""
        work, self._work = self._work, None
        if work is None:
            return
        if work.in_thread:
            # It uses files of this log, which must not be touched while it runs.
            self._workers.stop()
        try:
            work.cleaning.abandon()
        except (StorageError, OSError) as error:
            self._broker.environment.loggers.named(CLEANER).warning(
                "files of a cleaning left", partition=str(work.partition), error=str(error)
            )

    def _later(self, call: Callable[[], None], delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._broker.loop.call_later(delay_s, call)
