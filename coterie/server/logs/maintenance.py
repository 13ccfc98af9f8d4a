"""Background work on the logs: compaction, retention, producers, checkpoints, the directory.

Everything runs on the event loop in slices with timers, and without tasks. The intervals are
Kafka's settings. Compaction is in log_cleaner.py.

Invariant: work that fails is logged and done again at its next time. Only the loss of the data
directory stops the broker.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from coterie.server.loggers import LOG_MANAGER
from coterie.server.logs.log_cleaner import REST_FACTOR, SLICE_S, LogCleaner
from coterie.server.logs.partition import Partition, PartitionState
from coterie.server.metadata.topic_changes import Change
from coterie.server.services import SharedServices
from coterie.server.workers import once
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, LogFailed, StorageError, describe_error, remedy_for
from coterie.storage.log import Log

# How often the server checks that the data directory is still there: two stats, about 5 us. With
# --flush commit the first sync would notice; this check is for the other modes.
DIRECTORY_CHECK_S = 1.0

# How many producers are forgotten at once: about a millisecond.
PRODUCERS_A_STEP = 500
# Returned by an iterator that has no more steps; steps are None.
_END = object()


class Maintenance:
    """The background work of one broker.

    Attributes:
        cleaner: compaction.
        segments_removed, bytes_removed: by retention, since the start.
    """

    def __init__(
        self, broker: SharedServices, data: DataDirectory, *, watches_directory: bool
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            broker: the broker.
            data: its data directory.
            watches_directory: whether others could remove the directory.
        """
        self.cleaner = LogCleaner(broker, data)
        self.segments_removed = 0
        self.bytes_removed = 0
        self._broker = broker
        self._data = data
        self._watches_directory = watches_directory
        self._slice_clock_s = broker.environment.slice_clock_s
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False
        self._expiring: Iterator[Partition | None] = iter(())
        self._forgetting: Iterator[None] = iter(())

    def start(self) -> None:
        """Start all work that is enabled."""
        config = self._broker.config
        self.remove_deleted()
        if self._watches_directory:
            self._later("directory", self._check_directory, DIRECTORY_CHECK_S)
        self._later("checkpoint", self._write_recovery_points, self._checkpoint_interval_s())
        delay_ms = config.get_int("log.initial.task.delay.ms")
        self._later("retention", self._apply_retention, delay_ms / 1000)
        self._later("producers", self._expire_producers, self._producer_check_interval_s())
        if config.get_bool("log.cleaner.enable"):
            self.cleaner.start()

    def stop(self) -> None:
        """Stop all work; a cleaning in progress is abandoned."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.cleaner.stop()

    def release(self, partition: Partition) -> None:
        """Leave a partition and its files alone, because it is about to be deleted."""
        self.cleaner.release(partition)

    # --- deleted topics ---------------------------------------------------------------------------

    def remove_deleted(self) -> None:
        """Remove the files of deleted topics, one partition after the other."""
        if "removal" not in self._timers:
            self._later("removal", self._continue_removal, 0)

    def _continue_removal(self) -> None:
        assert "removal" in self._timers, "one removal is scheduled at a time"
        del self._timers["removal"]
        self._broker.changes.submit(self._remove_one(), self._one_removed)

    def _remove_one(self) -> Change[None]:
        """Remove the files of one partition, and go on later if there was one."""
        found = []
        kept = set(self._broker.topics.deleting.values())
        remove = partial(self._data.remove_deleted, kept)
        yield once(lambda: found.append(remove()))
        if found == [True] and not self._stopped:
            self.remove_deleted()

    def _one_removed(self, _result: None, failure: Exception | None) -> None:
        if isinstance(failure, OSError):
            # The next start removes them.
            self._broker.environment.loggers.named(LOG_MANAGER).warning(
                "files of deleted topics left",
                cause=describe_error(failure),
                remedy=remedy_for(failure),
            )
        elif failure is not None:
            self._broker.environment.loggers.named(LOG_MANAGER).error(
                "files of deleted topics left", exc_info=failure
            )

    # --- the data directory -----------------------------------------------------------------------

    def _check_directory(self) -> None:
        try:
            self._data.check()
        except OSError as error:
            self._broker.failures.directory_lost(error)
            return
        self._later("directory", self._check_directory, DIRECTORY_CHECK_S)

    def _checkpoint_interval_s(self) -> float:
        return self._broker.config.get_int("log.flush.offset.checkpoint.interval.ms") / 1000

    def _write_recovery_points(self) -> None:
        self._broker.slices.submit(self._recovery_points(), self._points_written)

    def _recovery_points(self) -> Iterator[None]:
        """Write the recovery points in steps, until all work is stopped.

        A directory that is closed writes them itself, and one that was abandoned may be another
        broker's.
        """
        steps = self._data.recovery_points_in_steps()
        while not self._stopped and next(steps, _END) is not _END:
            yield

    def _points_written(self, failure: Exception | None) -> None:
        if isinstance(failure, OSError):
            # Nothing is lost: without this checkpoint the next start scans more.
            self._broker.environment.loggers.named(LOG_MANAGER).warning(
                "recovery points not written",
                cause=describe_error(failure),
                remedy=remedy_for(failure),
            )
        elif failure is not None:
            raise failure
        if not self._stopped:
            self._later("checkpoint", self._write_recovery_points, self._checkpoint_interval_s())

    # --- producers --------------------------------------------------------------------------------

    def _producer_check_interval_s(self) -> float:
        return self._broker.config.get_int("producer.id.expiration.check.interval.ms") / 1000

    def _expire_producers(self) -> None:
        """Forget producers that are idle for too long [data-plane/producer-expiration]."""
        self._forgetting = self._idle_producers()
        self._continue_expiration()

    def _continue_expiration(self) -> None:
        began_s = self._slice_clock_s()
        for _ in self._forgetting:
            took_s = self._slice_clock_s() - began_s
            if took_s >= SLICE_S:
                self._later("producers", self._continue_expiration, took_s * REST_FACTOR)
                return
        self._later("producers", self._expire_producers, self._producer_check_interval_s())

    def _idle_producers(self) -> Iterator[None]:
        """Forget some idle producers of one log at each step."""
        broker = self._broker
        for topic in list(broker.topics.by_name.values()):
            for partition in topic.partitions:
                log = partition.opened_log
                while log is not None and _forget_some(log, broker.environment.now_ms()):
                    yield
                yield

    # --- retention --------------------------------------------------------------------------------

    def _apply_retention(self) -> None:
        """Remove segments that are past their retention, a slice at a time [log/retention]."""
        self._expiring = self._expire_logs()
        self._continue_retention()

    def _continue_retention(self) -> None:
        began_s = self._slice_clock_s()
        for unopened in self._expiring:
            if unopened is not None:
                self._broker.logs.opener.open_used(unopened, self._retention_opened)
                return
            took_s = self._slice_clock_s() - began_s
            if took_s >= SLICE_S:
                self._later("retention", self._continue_retention, took_s * REST_FACTOR)
                return
        interval_ms = self._broker.config.get_int("log.retention.check.interval.ms")
        self._later("retention", self._apply_retention, interval_ms / 1000)

    def _retention_opened(self) -> None:
        if not self._stopped:
            self._later("retention", self._continue_retention, 0)

    def _expire_logs(self) -> Iterator[Partition | None]:
        """Apply the retention to one log at each step.

        Yield a partition that has to be open before the next step, or None.
        """
        topics = self._broker.topics
        for topic in list(topics.by_name.values()):
            if not topic.config.delete:
                continue
            for partition in list(topic.partitions):
                if topics.by_name.get(topic.name) is not topic:
                    # Deleted since the last step.
                    break
                if partition.state is PartitionState.CLOSED and partition.may_have_records:
                    yield partition
                log = partition.opened_log
                if log is not None and not (log.failed or partition.failed):
                    self._expire_log(partition, log)
                yield None

    def _expire_log(self, partition: Partition, log: Log) -> None:
        broker, topic = self._broker, partition.topic
        where = {"topic": topic.name, "partition": partition.index}
        config, start_offset = topic.config, log.log_start_offset
        try:
            removed = log.remove_expired(
                broker.environment.now_ms(), config.retention_ms, config.retention_bytes
            )
            if removed:
                self._data.note_log_start(topic.name, partition.index, log.log_start_offset)
        except LogFailed as failure:
            broker.failures.storage_failed(log, failure)
            return
        except (StorageError, OSError) as error:
            broker.environment.loggers.named(LOG_MANAGER).error(
                "retention failed", **where, cause=describe_error(error), remedy=remedy_for(error)
            )
            return
        finally:
            if log.log_start_offset != start_offset:
                partition.changed()
        assert log.log_start_offset >= start_offset, "the start of a log never moves back"
        if removed:
            size_bytes = sum(segment.size_bytes for segment in removed)
            self.segments_removed += len(removed)
            self.bytes_removed += size_bytes
            broker.environment.loggers.named(LOG_MANAGER).info(
                "segments removed",
                **where,
                segments=len(removed),
                bytes=size_bytes,
                reason=removed[-1].reason,
                log_start_offset=log.log_start_offset,
            )

    def _later(self, work: str, call: Callable[[], None], delay_s: float) -> None:
        assert not self._stopped, "no work follows the end"
        self._timers[work] = self._broker.loop.call_later(delay_s, call)


def _forget_some(log: Log, now_ms: int) -> int:
    """Forget some idle producers of a log; return how many."""
    try:
        producers = log.producers
    except CorruptLog:
        return 0
    return producers.expire(now_ms, log.config.producer_expiration_ms, PRODUCERS_A_STEP)
