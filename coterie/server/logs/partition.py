"""A partition: its log, its idempotent producers, and the fetches that wait for its records.

Invariants: the high watermark is the end of the log, because there is one broker. Every append is
reported to the delayed fetches of the partition.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader, iterate_batches
from coterie.server.logs.producer_state import ProducerState
from coterie.storage.errors import StorageError
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.logs.fetching import DelayedFetch
    from coterie.server.logs.topics import Topic


class Partition:
    """A partition of a topic.

    Attributes:
        topic, index: the topic, and the partition's number in it.
        opened_log: the log; None until it is first used, because a directory may hold thousands.
        delayed_fetches: in the order of their arrival.
    """

    __slots__ = (
        "_expiration_ms",
        "_failure",
        "_open",
        "_producers",
        "delayed_fetches",
        "index",
        "opened_log",
        "topic",
    )

    def __init__(
        self,
        topic: "Topic",
        index: int,
        open_log: Callable[["Topic", int], Log],
        expiration_ms: int,
    ) -> None:
        """Start with a closed log.

        Args:
            topic: the topic.
            index: the partition's number.
            open_log: opens the log.
            expiration_ms: producer.id.expiration.ms.
        """
        self.topic = topic
        self.index = index
        self.opened_log: Log | None = None
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self._open = open_log
        self._failure: Exception | None = None
        self._expiration_ms = expiration_ms
        self._producers: ProducerState | None = None

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def log(self) -> Log:
        """The log, opened at its first use.

        Raises:
            StorageError, OSError: it cannot be opened. It then stays closed until the next start.
        """
        if self.opened_log is None:
            if self._failure is not None:
                raise self._failure
            try:
                self.opened_log = self._open(self.topic, self.index)
            except (StorageError, OSError) as error:
                self._failure = error
                raise
        return self.opened_log

    @property
    def online(self) -> bool:
        """Whether the log can be read, as far as is known; this opens it."""
        if self._failure is not None:
            return False
        try:
            return self.log is not None
        except (StorageError, OSError):
            return False

    @property
    def failed(self) -> bool:
        """Whether the log could not be opened, or was stopped."""
        return self._failure is not None

    def stop(self, error: OSError) -> None:
        """Stop the partition because the data directory is lost."""
        self._failure = error
        log = self.opened_log
        if log is not None:
            log.fail(error)

    def close(self) -> None:
        """Answer the delayed fetches, because the topic was deleted."""
        for fetch in list(self.delayed_fetches):
            fetch.finish()
        assert not self.delayed_fetches, "a fetch that is answered is not delayed any more"

    @property
    def producers(self) -> ProducerState:
        """The idempotent producers, read from the log at the first use.

        [data-plane/producers-after-restart]
        """
        if self._producers is None:
            self._producers = self._read_producers()
        return self._producers

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch, which batches and responses carry."""
        return self.log.leader_epoch

    def append(self, batch: bytes, header: BatchHeader, now_ms: int) -> int:
        """Append a validated batch of a producer; return its base offset.

        Raises:
            LogFailed, OSError: it could not be written.
        """
        # Before the append: producers that are read from the log must not include this batch.
        producers = self.producers if header.producer_id >= 0 else None
        base_offset = self.log.append(batch)
        assert self.log.log_end_offset == base_offset + header.record_count, "offsets are dense"
        if producers is not None:
            producers.record(header, base_offset, now_ms)
        self._notify_fetches(len(batch))
        return base_offset

    def append_own(self, batch: bytes) -> None:
        """Append a batch of the broker itself.

        Raises:
            LogFailed, OSError: it could not be written.
        """
        self.log.append(batch)
        if self.delayed_fetches:
            self._notify_fetches(len(batch))

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Check the leader epoch that a client expects [data-plane/current-leader-epoch]."""
        if not self.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Forget producers that are silent for `expiration_ms`, from now on."""
        self._expiration_ms = expiration_ms
        if self._producers is not None:
            self._producers.expiration_ms = expiration_ms

    def _notify_fetches(self, size_bytes: int) -> None:
        for fetch in list(self.delayed_fetches):
            fetch.records_appended(size_bytes)

    def _read_producers(self) -> ProducerState:
        producers = ProducerState(self._expiration_ms)
        for data in self.log.chunks():
            for _, header in iterate_batches(data):
                if header.producer_id >= 0 and not header.is_control:
                    producers.record(header, header.base_offset, header.max_timestamp_ms)
        return producers
