"""Opening the logs of partitions at their first use, without holding the event loop.

A data directory may hold thousands of partitions, so a log is opened when a request or the
maintenance needs it [topics/partition-states]. Opening reads the end of the log, perhaps all of its
last segment, so it is done by `Workers`; several logs are opened at the same time.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from coterie.server.environment import Environment
from coterie.server.loggers import LOG_MANAGER
from coterie.server.logs.partition import Partition, PartitionState
from coterie.server.workers import Workers, once
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import StorageError, remedy_for, root_cause
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.opening import LogOpening

# Errors of the operating system that pass by themselves and leave the log untouched: no file handle
# is left, or no memory.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# How many logs are handed to the threads at a time: making the work ready takes time, too.
_HANDED_OVER = 16
# After such an error the log is not opened again for this time.
RETRY_MS = 500


class LogOpener:
    """Opens logs. The partitions keep their state."""

    def __init__(
        self,
        data: DataDirectory,
        environment: Environment,
        disk: Workers,
        log_config: Callable[[Partition], LogConfig],
    ) -> None:
        """Open nothing yet.

        Args:
            data: the data directory.
            environment: its clock and its log are used.
            disk: does the work.
            log_config: returns the settings of a partition's log.
        """
        self._data = data
        self._disk = disk
        self._log = environment.loggers.named(LOG_MANAGER)
        self._now_ms = environment.now_ms
        self._log_config = log_config
        # What to call when a partition that is being opened is open or has failed.
        self._waiting: dict[Partition, list[Callable[[], None]]] = {}
        # Partitions whose turn comes when others are open.
        self._queue: deque[Partition] = deque()
        # Partitions whose files a thread uses now, or has used without a report to the event loop.
        self._in_use: dict[Partition, LogOpening] = {}
        # Those that were being opened when the deletion of their topic began.
        self._to_hold: set[Partition] = set()
        # Some of these, and what to call when none of them is left.
        self._leaving: list[tuple[set[Partition], Callable[[], None]]] = []
        self._has_ended = False

    def may_open(self, partition: Partition) -> bool:
        """Return whether a partition that is not open may be after `open`."""
        if partition.state is PartitionState.CLOSED:
            return self._now_ms() >= partition.retry_ms
        return partition.state is PartitionState.OPENING

    def open(self, partitions: Iterable[Partition], then: Callable[[], None]) -> None:
        """Open the partitions that may be opened; call `then` when each is open or has failed.

        `then` is called at once if nothing has to be opened.
        """
        opening = [each for each in partitions if self.may_open(each)]
        left = len(opening)
        if not left:
            then()
            return

        def one_settled() -> None:
            nonlocal left
            left -= 1
            assert left >= 0, "a partition settles once"
            if not left:
                then()

        for partition in opening:
            if partition.state is PartitionState.CLOSED:
                assert partition not in self._waiting, "a partition is opened once"
                assert partition not in self._in_use, "no thread uses a closed partition"
                partition.state = PartitionState.OPENING
                self._waiting[partition] = []
                self._queue.append(partition)
            self._waiting[partition].append(one_settled)
        self._begin_some()

    def open_used(self, partition: Partition, then: Callable[[], None]) -> None:
        """Open a partition for the maintenance, unless its log is empty; then call `then`.

        A directory may have thousands of empty partitions, which need not be opened.
        """
        if partition.state is not PartitionState.CLOSED or not partition.may_have_records:
            then()
            return
        topic, index = partition.topic.name, partition.index
        found = False

        def search() -> None:
            nonlocal found
            found = self._data.has_records(topic, index)

        def searched(_error: Exception | None) -> None:
            if partition.state is PartitionState.CLOSED and not found:
                partition.may_have_records = False
            if found:
                self.open([partition], then)
            else:
                then()

        self._disk.submit(once(search), searched)

    def open_now(self, partition: Partition) -> None:
        """Open a partition here and now, if it is closed: only while the broker starts or stops."""
        if partition.state is PartitionState.CLOSED:
            assert partition not in self._waiting, "a partition is opened once at a time"
            opening = self._opening(partition)
            try:
                opening.run()
            except (StorageError, OSError) as error:
                self._failed(partition, error)
            else:
                self._opened(partition, opening)

    def hold(self, partitions: Iterable[Partition]) -> None:
        """Open no closed ones of some partitions, because their topic is being deleted.

        One that is being opened is held if its opening fails for a reason that passes.
        """
        for partition in partitions:
            assert partition.state is not PartitionState.HELD, "a topic is deleted once at a time"
            if partition.state is PartitionState.CLOSED:
                partition.state = PartitionState.HELD
            elif partition.state is PartitionState.OPENING:
                self._to_hold.add(partition)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """End `hold`: the topic could not be deleted."""
        for partition in partitions:
            assert partition.state is not PartitionState.DELETED, (
                "a deleted partition is not used again"
            )
            self._to_hold.discard(partition)
            if partition.state is PartitionState.HELD:
                partition.state = PartitionState.CLOSED

    def release(self, partition: Partition) -> None:
        """Do not open a partition any more, because its topic is deleted."""
        assert partition.state is not PartitionState.DELETED, "a partition is deleted once"
        self._to_hold.discard(partition)
        settled = self._waiting.pop(partition, ())
        partition.fail(FileNotFoundError(errno.ENOENT, "the topic was deleted"))
        partition.state = PartitionState.DELETED
        for each in settled:
            each()

    def when_unused(self, partitions: Iterable[Partition], then: Callable[[], None]) -> None:
        """Call `then` when no thread uses the files of some partitions."""
        left = self._waiting.keys() & set(partitions)
        if left:
            self._leaving.append((left, then))
        else:
            then()

    def end(self) -> None:
        """Open nothing any more, and close what threads have opened: the broker has stopped.

        The threads report to the event loop, which may not turn again before the directory is
        closed or used by the next broker. Nothing that waits is called.
        """
        self._has_ended = True
        for opening in self._in_use.values():
            _abandon(opening)

    def _opening(self, partition: Partition) -> LogOpening:
        return self._data.opening(
            partition.topic.name, partition.index, self._log_config(partition), self._now_ms()
        )

    def _begin_some(self) -> None:
        while self._queue and len(self._in_use) < _HANDED_OVER:
            partition = self._queue.popleft()
            assert partition not in self._in_use, "one thread uses the files of a partition"
            opening = self._in_use[partition] = self._opening(partition)
            self._disk.submit(once(opening.run), partial(self._settle, partition, opening))

    def _settle(self, partition: Partition, opening: LogOpening, error: Exception | None) -> None:
        assert partition in self._in_use, "the work of a thread ends once"
        del self._in_use[partition]
        assert len(self._in_use) < _HANDED_OVER, "few logs are opened at a time"
        if self._has_ended:
            _abandon(opening)
            return
        self._begin_some()
        if partition.state is not PartitionState.OPENING:
            # The topic was deleted, or the data directory was lost.
            _abandon(opening)
            self._unused(partition)
            return
        if error is None:
            self._opened(partition, opening)
        else:
            self._failed(partition, error)
        for each in self._waiting.pop(partition):
            each()
        self._unused(partition)

    def _unused(self, partition: Partition) -> None:
        leaving, self._leaving = self._leaving, []
        for left, then in leaving:
            left.discard(partition)
            if left:
                self._leaving.append((left, then))
            else:
                then()

    def _opened(self, partition: Partition, opening: LogOpening) -> None:
        log: Log = self._data.opened(opening)
        assert not log.failed, "a log that could not be synced is not opened"
        # The settings may have been altered since the beginning.
        log.config = self._log_config(partition)
        if log.tail_cut is not None or (opening.power_was_lost and log.epochs.latest >= 0):
            # Consumers may have read records that are missing now. The new leader epoch lets them
            # detect that [data-plane/epoch-after-cut].
            log.leader_epoch += 1
        if log.tail_cut is not None:
            self._log.warning(
                "log tail cut",
                topic=partition.topic.name,
                partition=partition.index,
                reason=str(log.tail_cut),
            )
        partition.opened(log)

    def _failed(self, partition: Partition, error: Exception) -> None:
        assert partition.opened_log is None, "an opening that fails leaves no log"
        is_opening = partition.state in (PartitionState.CLOSED, PartitionState.OPENING)
        assert is_opening, "only an opening fails"
        cause = root_cause(error)
        if isinstance(cause, OSError) and cause.errno in _PASSING:
            is_held = partition in self._to_hold
            partition.state = PartitionState.HELD if is_held else PartitionState.CLOSED
            is_known = partition.retry_ms > 0
            partition.retry_ms = self._now_ms() + RETRY_MS
            if is_known:
                return
        else:
            partition.fail(error)
        ours = not isinstance(error, StorageError | OSError)
        self._log.error(
            "partition failed" if partition.failed else "partition not opened yet",
            topic=partition.topic.name,
            partition=partition.index,
            error=str(error),
            remedy=remedy_for(error),
            **({"exc_info": error} if ours else {}),
        )


def _abandon(opening: LogOpening) -> None:
    """Close the files of a log that nobody uses, if it was opened."""
    if opening.log is not None:
        opening.log.abandon()
