"""Which logs may be cleaned now, and when a failed cleaning is tried again.

A log is left alone while it is loaded, after it has failed, and once its topic is deleted. A failed
cleaning is logged and leaves the log untouched. It is retried after a minute, then after twice that
time, up to an hour; after damage it is not retried before the next start [compaction/steps].
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.loggers import CLEANER
from coterie.server.logs.log_configs import cleaner_config
from coterie.server.logs.partition import Partition, PartitionState
from coterie.server.services import SharedServices
from coterie.storage.cleanable import Cleanable, CleanerConfig, cleanable
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import (
    CorruptLog,
    LogFailed,
    OutOfHandles,
    StorageError,
    describe_error,
    is_shortage,
    remedy_for,
)
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.config.topic_config import TopicConfig

# A full disk may have room again after some time, and should not be filled once a second.
FIRST_RETRY_MS = 60_000
LAST_RETRY_MS = 3_600_000
# After a shortage of file handles, which passes.
SHORTAGE_RETRY_MS = 1_000


class Uncleanable(NamedTuple):
    """A partition whose cleaning failed.

    Attributes:
        error: the error.
        attempts: how many cleanings have failed in a row.
        retry_ms: when the next one may begin; None if not before the next start.
    """

    error: Exception
    attempts: int
    retry_ms: int | None


class CleanableLogs:
    """The compacted logs of one broker.

    Attributes:
        uncleanable: partitions whose last cleaning failed.
    """

    def __init__(self, broker: SharedServices, data: DataDirectory) -> None:
        self.uncleanable: dict[Partition, Uncleanable] = {}
        self._broker = broker
        self._data = data

    def search(self) -> Iterator[tuple[Partition, Cleanable | None]]:
        """Iterate over the logs that may be cleaned, with what there is to clean.

        With None the partition has to be opened before the next step.
        """
        broker = self._broker
        for topic in list(broker.topics.by_name.values()):
            if not topic.config.compact:
                continue
            config = self.cleaner_config(topic.config)
            for partition in list(topic.partitions):
                if not self.may_be_cleaned(partition):
                    continue
                if partition.state is PartitionState.CLOSED and partition.may_have_records:
                    yield partition, None
                log = partition.opened_log
                if log is None or not self.may_be_cleaned(partition):
                    continue
                try:
                    self._roll_if_due(log, config)
                    first_dirty = self._data.cleaner_offset(topic.name, partition.index)
                    found = cleanable(log, first_dirty, broker.environment.now_ms(), config)
                except Exception as error:  # noqa: BLE001 - our mistake must stop only this cleaning
                    self.failed(partition, error)
                else:
                    yield partition, found

    def cleaner_config(self, topic: "TopicConfig") -> CleanerConfig:
        """Return the settings of a cleaning."""
        config = self._broker.config
        return cleaner_config(topic)._replace(
            max_map_bytes=config.get_int("log.cleaner.dedupe.buffer.size"),
        )

    def may_be_cleaned(self, partition: Partition) -> bool:
        """Return whether a cleaning of the partition may begin now."""
        topic, broker = partition.topic, self._broker
        if broker.topics.by_name.get(topic.name) is not topic or not topic.config.compact:
            return False
        if self.is_loading(partition):
            return False
        failed = self.uncleanable.get(partition)
        if failed is not None and (
            failed.retry_ms is None or broker.environment.now_ms() < failed.retry_ms
        ):
            return False
        log = partition.opened_log
        return not partition.failed and (log is None or not log.failed)

    def is_loading(self, partition: Partition) -> bool:
        """Return whether a group coordinator is reading the partition's log."""
        topic = self._broker.offsets_topic
        return partition.topic.name == OFFSETS_TOPIC and topic.is_loading(partition.index)

    def _roll_if_due(self, log: Log, config: CleanerConfig) -> None:
        # The active segment is never cleaned, so after max.compaction.lag.ms it must end (KIP-354).
        active = log.segments[-1]
        age_ms = self._broker.environment.now_ms() - active.first_timestamp_ms
        if active.size and age_ms > config.max_compaction_lag_ms:
            log.roll()
            assert log.segments[-1] is not active, "the active segment has ended"

    def cleaned(self, partition: Partition) -> None:
        """Forget earlier failures of a partition that was cleaned or is about to be deleted."""
        self.uncleanable.pop(partition, None)

    def failed(self, partition: Partition, error: Exception) -> None:
        """Log that a cleaning failed, and set the time of the next one."""
        broker = self._broker
        before = self.uncleanable.get(partition)
        is_retried = before is None or before.retry_ms is not None
        assert is_retried, "after damage a log is not cleaned before the next start"
        attempts = 1 if before is None else before.attempts + 1
        first_ms = SHORTAGE_RETRY_MS if is_shortage(error) else FIRST_RETRY_MS
        pause_ms = min(first_ms << min(attempts - 1, 10), LAST_RETRY_MS)
        assert first_ms <= pause_ms <= LAST_RETRY_MS, "a retry comes after a pause"
        # Waiting may cure an error of the operating system, but neither damage nor our mistakes.
        retry_ms = (
            broker.environment.now_ms() + pause_ms
            if isinstance(error, OSError | OutOfHandles)
            else None
        )
        self.uncleanable[partition] = Uncleanable(error, attempts, retry_ms)
        log = partition.opened_log
        if isinstance(error, LogFailed) and log is not None:
            broker.failures.storage_failed(log, error)
        details: dict[str, Any] = {} if log is None else {"directory": log.directory}
        if isinstance(error, CorruptLog):
            details = {"file": error.path, "position": error.position}
        elif not isinstance(error, StorageError | OSError):
            details["exc_info"] = error
        broker.environment.loggers.named(CLEANER).error(
            "log not cleaned",
            topic=partition.topic.name,
            partition=partition.index,
            cause=describe_error(error),
            remedy=remedy_for(error),
            retry_in_s=None if retry_ms is None else pause_ms // 1000,
            **details,
        )
