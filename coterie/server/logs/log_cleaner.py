"""Compaction beside live traffic: which log is cleaned next, in slices of half a millisecond.

The cleaner itself (storage/cleaner.py) is an iterator of small steps. Here they are run on the
event loop, a slice at a time; after each slice the loop belongs to others for three times as long,
and for as long as `log.cleaner.io.max.bytes.per.second` asks for. What waits for the disk runs in a
thread. As in Kafka the log with the greatest share of uncleaned bytes comes first.

Invariants: one log at a time; nothing is done to one that loads, has failed or is being deleted;
the cleaner's checkpoint is written after the swap, so that losing it costs work and nothing else. A
cleaning that fails is told, leaves the log as it was, and is tried again later; appends and reads
go on.
"""

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.logs.partition import Partition
from coterie.storage.cleaner import Cleanable, CleanerConfig, Cleaning, Step, cleanable
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, LogFailed, StorageError, describe_error, remedy_for
from coterie.storage.log import Log

if TYPE_CHECKING:
    import asyncio

    from coterie.server.broker import Broker
    from coterie.server.config.config import TopicConfig

# How long the loop is kept at a time; one step may take as long again. To a client that is as if
# fifty heartbeats came before its own.
SLICE_S = 0.0005
# After a slice the loop is left alone for so many times what it took: cleaning gets a quarter of
# the time at most.
REST_FACTOR = 3
# A cleaning that failed is tried again after a minute, then after twice that, up to an hour: a full
# disk may have room again, and need not be filled once a second.
FIRST_RETRY_MS = 60_000
LAST_RETRY_MS = 3_600_000
# The shortest pause between two looks, whatever log.cleaner.backoff.ms says: a look costs some 50
# us for each compacted log.
MIN_PAUSE_S = 0.01
# How long a cleaning rests when its partition began to load meanwhile.
LOADING_PAUSE_S = 0.05
# How long stopping and the deletion of a topic wait for a sync that is under way.
JOIN_TIMEOUT_S = 10.0


class Uncleanable(NamedTuple):
    """A partition whose cleaning failed.

    Attributes:
        error: why.
        attempts: cleanings that failed one after the other.
        retry_ms: when it is tried again; None for damage, which no waiting heals.
    """

    error: Exception
    attempts: int
    retry_ms: int | None


class _Work:
    """The cleaning under way; `ended` when only its checkpoint is left to be written."""

    def __init__(self, partition: Partition, found: Cleanable, cleaning: Cleaning) -> None:
        self.partition = partition
        self.found = found
        self.cleaning = cleaning
        self.steps: Iterator[Step] = iter(cleaning)
        self.began_s = monotonic()
        self.ended = False


class LogCleaner:
    """Compacts the logs of one broker.

    Attributes:
        cleanings, bytes_read, bytes_written, records_kept: since the start.
        last_cleaning_s, longest_cleaning_s: from the first slice to the last.
        max_dirty_ratio: of all logs, at the last look.
        uncleanable: partitions whose last cleaning failed.
    """

    def __init__(self, broker: "Broker", data: DataDirectory) -> None:
        """Nothing runs before `start`."""
        self.cleanings = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_kept = 0
        self.last_cleaning_s = 0.0
        self.longest_cleaning_s = 0.0
        self.max_dirty_ratio = 0.0
        self.uncleanable: dict[Partition, Uncleanable] = {}
        self._broker = broker
        self._data = data
        self._timer: asyncio.TimerHandle | None = None
        self._looking: Iterator[tuple[Partition, Cleanable]] = iter(())
        self._filthiest: tuple[Partition, Cleanable] | None = None
        self._greatest_ratio = 0.0
        self._work: _Work | None = None
        self._thread: threading.Thread | None = None
        self._rest_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether a log is being cleaned."""
        return self._work is not None

    @property
    def waits_for_disk(self) -> bool:
        """Whether the thread is at work for it."""
        return self._thread is not None

    def start(self) -> None:
        """Begin to look for work."""
        self._look()

    def stop(self) -> None:
        """Give up what is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._give_up()

    def release(self, partition: Partition) -> None:
        """The partition is about to be deleted: leave it alone, its files too, from now on."""
        self.uncleanable.pop(partition, None)
        work = self._work
        if work is None:
            return
        if work.ended and self._thread is not None:
            # It writes the checkpoint, out of which a deleted topic is about to be taken.
            self._thread.join(JOIN_TIMEOUT_S)
        if work.partition is partition:
            self._give_up()
            self._later(self._look, 0)

    # --- what to clean ----------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at all logs, a slice at a time, and clean the one that needs it most."""
        self._looking = self._candidates()
        self._filthiest, self._greatest_ratio = None, 0.0
        self._look_on()

    def _look_on(self) -> None:
        began_s = monotonic()
        for partition, found in self._looking:
            ratio = found.dirty_ratio
            self._greatest_ratio = max(self._greatest_ratio, ratio)
            if found.due and (self._filthiest is None or ratio > self._filthiest[1].dirty_ratio):
                self._filthiest = partition, found
            took_s = monotonic() - began_s
            if took_s >= SLICE_S:
                self._later(self._look_on, took_s * REST_FACTOR)
                return
        self.max_dirty_ratio = self._greatest_ratio
        if self._filthiest is None or not self._is_fit(self._filthiest[0]):
            self._look_after_backoff()
        else:
            self._begin(*self._filthiest)

    def _candidates(self) -> Iterator[tuple[Partition, Cleanable]]:
        broker = self._broker
        for topic in list(broker.topics.by_name.values()):
            if not topic.config.compact:
                continue
            config = self._config(topic.config)
            for partition in list(topic.partitions):
                log = broker.topics.log_for_upkeep(partition) if self._is_fit(partition) else None
                if log is None:
                    continue
                try:
                    self._roll_if_due(log, config)
                    first_dirty = self._data.cleaner_offset(topic.name, partition.index)
                    found = cleanable(log, first_dirty, broker.now_ms(), config)
                except Exception as error:  # noqa: BLE001 - a mistake of ours stops this log's cleaning only
                    self._failed(partition, error)
                else:
                    yield partition, found

    def _config(self, topic: "TopicConfig") -> CleanerConfig:
        config = self._broker.config
        return CleanerConfig(
            delete_retention_ms=topic.delete_retention_ms,
            min_compaction_lag_ms=topic.min_compaction_lag_ms,
            max_compaction_lag_ms=topic.max_compaction_lag_ms,
            min_cleanable_ratio=topic.min_cleanable_ratio,
            segment_bytes=topic.segment_bytes,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            max_map_bytes=config.get_int("log.cleaner.dedupe.buffer.size"),
        )

    def _is_fit(self, partition: Partition) -> bool:
        """Whether a cleaning of the partition may begin now."""
        topic, broker = partition.topic, self._broker
        if broker.topics.by_name.get(topic.name) is not topic or not topic.config.compact:
            return False
        if self._is_loading(partition):
            return False
        failed = self.uncleanable.get(partition)
        if failed is not None and (failed.retry_ms is None or broker.now_ms() < failed.retry_ms):
            return False
        log = partition.opened_log
        return log is None or not log.failed

    def _is_loading(self, partition: Partition) -> bool:
        return partition.topic.name == OFFSETS_TOPIC and self._broker.groups.is_loading(
            partition.index
        )

    def _roll_if_due(self, log: Log, config: CleanerConfig) -> None:
        """The active segment is never cleaned: past max.compaction.lag.ms it must end (KIP-354)."""
        active = log.segments[-1]
        age_ms = self._broker.now_ms() - active.first_timestamp_ms
        if active.size and age_ms > config.max_compaction_lag_ms:
            log.roll()

    # --- cleaning ---------------------------------------------------------------------------------

    def _begin(self, partition: Partition, found: Cleanable) -> None:
        config = self._config(partition.topic.config)
        cleaning = Cleaning(partition.log, found, self._broker.now_ms(), config)
        self._work = _Work(partition, found, cleaning)
        self._slice()

    def _slice(self) -> None:
        """Go on with the cleaning under way for as long as a slice lasts."""
        work = self._work
        assert work is not None, "a slice belongs to a cleaning"
        if self._is_loading(work.partition):
            self._later(self._slice, LOADING_PAUSE_S)
            return
        began_s, done_bytes, pending = monotonic(), 0, None
        try:
            while pending is None and monotonic() - began_s < SLICE_S:
                step = next(work.steps)
                done_bytes += step.bytes_done
                pending = step.pending
        except StopIteration:
            self._finished(work)
            return
        except Exception as error:  # noqa: BLE001 - a mistake of ours stops this log's cleaning only
            self._give_up()
            self._failed(work.partition, error)
            self._later(self._look, MIN_PAUSE_S)
            return
        rate = self._broker.config.get_float("log.cleaner.io.max.bytes.per.second")
        self._rest_s = max((monotonic() - began_s) * REST_FACTOR, done_bytes / rate)
        if pending is None:
            self._later(self._slice, self._rest_s)
            return
        self._apart(work, pending.run)

    def _apart(self, work: _Work, run: Callable[[], None]) -> None:
        """Do what waits for the disk in a thread."""
        self._thread = threading.Thread(
            target=self._run, args=(work, run), name="coterie-cleaner", daemon=True
        )
        self._thread.start()

    def _run(self, work: _Work, run: Callable[[], None]) -> None:
        """The thread: run, and report."""
        error: Exception | None = None
        try:
            run()
        except Exception as failure:  # noqa: BLE001 - the loop tells it
            error = failure
        try:
            self._broker.loop.call_soon_threadsafe(self._disk_done, work, error)
        except RuntimeError:
            return  # The loop is closed: nobody is left to tell.

    def _disk_done(self, work: _Work, error: Exception | None) -> None:
        """The thread has done what the last step asked for."""
        if work is not self._work:
            return
        self._thread = None
        if error is None:
            if work.ended:
                self._cleaned(work)
            else:
                self._later(self._slice, self._rest_s)
            return
        try:
            if isinstance(error, OSError) and not work.ended:
                work.cleaning.fail(error)
        except LogFailed as failure:
            error = failure
        self._give_up()
        self._failed(work.partition, error)
        self._later(self._look, MIN_PAUSE_S)

    def _finished(self, work: _Work) -> None:
        """The last step was done: write down how far the log is clean."""
        partition, result = work.partition, work.cleaning.result
        self.bytes_read += result.bytes_read
        self.bytes_written += result.bytes_written
        self.records_kept += result.records_kept
        if result.abandoned or result.first_dirty_offset <= work.found.first_dirty_offset:
            # Retention or DeleteRecords took a segment away, or there was nothing to be done.
            self._work = None
            self._look_after_backoff()
            return
        work.ended = True
        # It syncs a file, which may take longer than the loop can be kept.
        self._apart(
            work,
            lambda: self._data.set_cleaner_offset(
                partition.topic.name, partition.index, result.first_dirty_offset
            ),
        )

    def _cleaned(self, work: _Work) -> None:
        """The cleaning has come to its end; the next one may follow at once."""
        self._work = None
        partition, result = work.partition, work.cleaning.result
        took_s = monotonic() - work.began_s
        self.uncleanable.pop(partition, None)
        self.cleanings += 1
        self.last_cleaning_s = took_s
        self.longest_cleaning_s = max(self.longest_cleaning_s, took_s)
        self._broker.log.info(
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
        self._later(self._look, self._rest_s)

    # --- failures and the end ---------------------------------------------------------------------

    def _failed(self, partition: Partition, error: Exception) -> None:
        """Tell why a log was not cleaned, and when it is tried again."""
        broker = self._broker
        before = self.uncleanable.get(partition)
        attempts = 1 if before is None else before.attempts + 1
        pause_ms = min(FIRST_RETRY_MS << min(attempts - 1, 10), LAST_RETRY_MS)
        lasting = not isinstance(error, OSError)
        retry_ms = None if lasting else broker.now_ms() + pause_ms
        self.uncleanable[partition] = Uncleanable(error, attempts, retry_ms)
        log = partition.opened_log
        if isinstance(error, LogFailed) and log is not None:
            broker.storage_failed(log, error)
        where: dict[str, Any] = {} if log is None else {"directory": log.directory}
        if isinstance(error, CorruptLog):
            where = {"file": error.path, "position": error.position}
        elif not isinstance(error, StorageError | OSError):
            where["exc_info"] = error
        broker.log.error(
            "log not cleaned",
            topic=partition.topic.name,
            partition=partition.index,
            cause=describe_error(error),
            remedy=remedy_for(error),
            retry_in_s=None if retry_ms is None else pause_ms // 1000,
            **where,
        )

    def _give_up(self) -> None:
        """End the cleaning under way, if any; its half-written files go."""
        work, self._work = self._work, None
        if work is None:
            return
        thread, self._thread = self._thread, None
        if thread is not None:
            # It works on files of this log, which nobody else may touch meanwhile.
            thread.join(JOIN_TIMEOUT_S)
        try:
            work.cleaning.abandon()
        except (StorageError, OSError) as error:
            self._broker.log.warning(
                "files of a cleaning left", partition=str(work.partition), error=str(error)
            )

    def _look_after_backoff(self) -> None:
        backoff_ms = self._broker.config.get_int("log.cleaner.backoff.ms")
        self._later(self._look, max(backoff_ms / 1000, MIN_PAUSE_S))

    def _later(self, call: Callable[[], None], delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._broker.loop.call_later(delay_s, call)
