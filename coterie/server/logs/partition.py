"""Topics and their partitions: the logs, and the fetches that wait for their records.

Invariants: the high watermark is the end of the log, unless too few replicas are in sync; then it
is held where it was [cluster/held-high-watermark]. Every append below it, and every other change
that a fetch could report, is reported to the watchers of the partition.
"""

from enum import Enum
from typing import Protocol

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader
from coterie.server.config.topic_config import TopicConfig
from coterie.server.logs.first_sequences import FirstSequences
from coterie.server.metadata.topic import TopicMetadata
from coterie.storage.log import Log


class Watcher(Protocol):
    """A fetch that waits for records, or a partition of a fetch session that has no news."""

    def records_appended(self, size_bytes: int, stable_bytes: int) -> None:
        """Count an append to one of its partitions.

        Args:
            size_bytes: what was appended.
            stable_bytes: how much more can be read at isolation level READ_COMMITTED.
        """

    def changed(self) -> None:
        """Note a change that is no append: of the state, the leader epoch or the log's start."""

    def finish(self) -> None:
        """Answer with the records there are now."""


class PartitionState(Enum):
    """What can be done with the log of a partition [topics/partition-states]."""

    CLOSED = "closed"  # it was not used yet
    OPENING = "opening"  # a thread opens it; requests wait
    OPEN = "open"  # it can be read, and written unless a write has failed
    HELD = "held"  # it is closed, and its topic is being deleted
    FAILED = "failed"  # it could not be opened, or the data directory is lost
    DELETED = "deleted"  # its topic was deleted


# For the hot path: looking up a member of an enumeration takes as long as a call.
OPEN = PartitionState.OPEN
_NONE = ErrorCode.NONE
# The high watermark is held where the log ends when it is opened.
_WHEN_OPENED = -1
# Of clients that expect no epoch.
_ANY_EPOCH = -1


class Partition:
    """A partition of a topic.

    Attributes:
        topic, index: the topic, and the partition's number in it.
        state: whether the log can be used. `LogOpener` changes it.
        opened_log: the log; None before it is open.
        closed_epoch: the leader epoch of a log that is not open, as far as is known.
        may_have_records: False if the log is closed and known to be empty.
        failure: why it failed.
        retry_ms: when an opening that failed for a passing reason may be tried again.
        watchers: in the order of their arrival.
        held_end: where the high watermark is held, because too few replicas are in sync; None if it
            is the end of the log.
        first_sequences: of producers of transactions; None before the first one.
    """

    __slots__ = (
        "closed_epoch",
        "failure",
        "first_sequences",
        "held_end",
        "index",
        "may_have_records",
        "opened_log",
        "retry_ms",
        "state",
        "topic",
        "watchers",
    )

    def __init__(self, topic: "Topic", index: int) -> None:
        """Start as a new partition, whose log is closed and empty.

        Args:
            topic: the topic.
            index: the partition's number.
        """
        self.topic = topic
        self.index = index
        self.state = PartitionState.CLOSED
        self.opened_log: Log | None = None
        self.closed_epoch = 0
        self.may_have_records = False
        self.failure: Exception | None = None
        self.retry_ms = 0
        self.watchers: dict[Watcher, None] = {}
        self.held_end: int | None = None
        self.first_sequences: FirstSequences | None = None

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def log(self) -> Log:
        """The open log. Requests wait until it is open before they use it."""
        log = self.opened_log
        assert log is not None, "a log is opened before it is used"
        return log

    @property
    def failed(self) -> bool:
        """Whether the log could not be opened, or was stopped."""
        return self.state in (PartitionState.FAILED, PartitionState.DELETED)

    def opened(self, log: Log) -> None:
        """Use a log that was opened."""
        assert self.opened_log is None, "a partition has one log"
        is_awaited = self.state in (PartitionState.CLOSED, PartitionState.OPENING)
        assert is_awaited, "no log is opened of a partition that failed, is held or is deleted"
        self.opened_log = log
        self.state = PartitionState.OPEN
        self.topic.unopened -= 1
        assert self.topic.unopened >= 0, "a partition is opened once"
        self.retry_ms = 0
        if self.held_end == _WHEN_OPENED:
            self.held_end = log.log_end_offset
        # Epochs without records are not in the log.
        log.leader_epoch = max(log.leader_epoch, self.closed_epoch)
        if log.leader_epoch != self.closed_epoch:
            self.topic.changed()

    def lead(self, epoch: int) -> None:
        """Give an epoch to the batches that are appended from now on."""
        assert epoch >= self.leader_epoch, "leader epochs only grow"
        if self.opened_log is None:
            self.closed_epoch = epoch
        else:
            self.opened_log.leader_epoch = epoch
        self.topic.changed()
        self.changed()

    def hold(self) -> None:
        """Keep the high watermark where it is: too few replicas are in sync."""
        log = self.opened_log
        if log is None:
            self.held_end = _WHEN_OPENED
        elif self.held_end is None or self.held_end > log.log_end_offset:
            self.held_end = log.log_end_offset

    def release(self) -> None:
        """Let the high watermark be the end of the log again."""
        held, self.held_end = self.held_end, None
        log = self.opened_log
        assert log is None or held != _WHEN_OPENED, f"{self} is open and held nowhere"
        if held is not None and log is not None and held < log.log_end_offset:
            size_bytes = log.bytes_between(max(held, log.log_start_offset), log.log_end_offset)
            self._notify_watchers(size_bytes, size_bytes)

    def fail(self, error: Exception) -> None:
        """Stop the partition for good: it cannot be opened, or the data directory is lost."""
        assert self.state is not PartitionState.DELETED, "a deleted partition stays deleted"
        self.state = PartitionState.FAILED
        self.failure = error
        self.topic.changed()
        log = self.opened_log
        if log is not None and isinstance(error, OSError):
            log.fail(error)
        self.changed()

    def changed(self) -> None:
        """Report a change that is no append to the watchers."""
        for watcher in list(self.watchers):
            watcher.changed()

    def close(self) -> None:
        """Answer the delayed fetches, because the topic was deleted."""
        assert self.state is PartitionState.DELETED, "only a deleted partition is closed"
        for watcher in list(self.watchers):
            watcher.finish()
        assert not self.watchers, "a fetch that is answered is not delayed any more"

    @property
    def high_watermark(self) -> int:
        """Up to where consumers see the records of the open log."""
        log, held = self.log, self.held_end
        return log.log_end_offset if held is None else max(held, log.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch, which batches and responses carry."""
        log = self.opened_log
        return self.closed_epoch if log is None else log.leader_epoch

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the newest epoch that is not above `epoch`, and the offset after its records.

        Both are -1 for an epoch that the partition has not reached [data-plane/epoch-end-offset].
        """
        log = self.log
        if epoch == log.leader_epoch:
            return epoch, log.log_end_offset
        latest = log.epochs.latest
        if latest < epoch < log.leader_epoch:
            # Nothing was appended in it, or all of it was cut off: it ends where a later one began.
            return (latest if latest >= 0 else epoch), log.log_end_offset
        found = log.epochs.end_offset(epoch, log.log_end_offset)
        assert found[1] <= log.log_end_offset, "an epoch ends within the log"
        return found

    def append(self, batch: bytes, header: BatchHeader, now_ms: int) -> int:
        """Append a validated batch of a producer; return its base offset.

        Raises:
            LogFailed, OSError: it could not be written.
        """
        log = self.log
        base_offset = log.append(batch, now_ms)
        assert log.log_end_offset == base_offset + header.record_count, "offsets are dense"
        if self.watchers:
            # Behind an open transaction nothing more is stable.
            self._notify_watchers(len(batch), 0 if log.has_open_transaction else len(batch))
        return base_offset

    def append_own(self, batch: bytes, now_ms: int = 0, made: int = 0) -> None:
        """Append a batch of the broker itself.

        Args:
            batch: the batch.
            now_ms: the time.
            made: see `Log.append`.

        Raises:
            StorageError, OSError: it could not be written.
        """
        if self.watchers:
            self.append_marker(batch, now_ms)
        else:
            self.log.append(batch, now_ms, made)
        if self.topic.show is not None:
            self.topic.show()

    def append_marker(self, batch: bytes, now_ms: int) -> None:
        """Append a batch that may end a transaction.

        Raises:
            StorageError, OSError: it could not be written.
        """
        log = self.log
        if not self.watchers:
            log.append(batch, now_ms)
            return
        stable_offset = log.last_stable_offset
        log.append(batch, now_ms)
        assert log.last_stable_offset >= stable_offset, "what is stable stays stable"
        stable_bytes = log.bytes_between(stable_offset, log.last_stable_offset)
        self._notify_watchers(len(batch), stable_bytes)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Check the leader epoch that a client expects [data-plane/current-leader-epoch]."""
        if self.state is not OPEN:
            is_deleted = self.state is PartitionState.DELETED
            return (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if is_deleted
                else ErrorCode.KAFKA_STORAGE_ERROR
            )
        if current_leader_epoch == _ANY_EPOCH or current_leader_epoch == self.leader_epoch:
            return _NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def _notify_watchers(self, size_bytes: int, stable_bytes: int) -> None:
        if self.held_end is not None:
            return
        for watcher in list(self.watchers):
            watcher.records_appended(size_bytes, stable_bytes)


class Topic(TopicMetadata):
    """A topic, with what this broker has of its partitions.

    Attributes:
        partitions: by their number.
        unopened: how many partitions are not open.
    """

    __slots__ = ("partitions", "unopened")

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        """Make a topic without partitions."""
        super().__init__(name, topic_id, config)
        self.partitions: list[Partition] = []
        self.unopened = 0

    def grow(self, count: int) -> None:
        """Add partitions, whose logs are closed, up to a number of them."""
        first = self.partition_count
        assert count >= first, "a topic loses no partition"
        self.partitions += [Partition(self, index) for index in range(first, count)]
        self.partition_count = count
        assert len(self.partitions) == count, "partitions are numbered without gaps"
        self.unopened += count - first
        assert self.unopened <= count, "each closed partition is counted once"

    def partition(self, index: int) -> Partition | None:
        """Return a partition by its number, or None if it does not exist."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
