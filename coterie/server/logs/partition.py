"""One partition at work: its log, what it remembers of producers, and the fetches that wait for it.

Invariants: with one broker the high watermark is the log's end; a waiting fetch is told of every
append.
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
    """A partition of a topic."""

    __slots__ = (
        "_expiration_ms",
        "_failure",
        "_open",
        "_producers",
        "index",
        "opened_log",
        "topic",
        "waiters",
    )

    def __init__(
        self,
        topic: "Topic",
        index: int,
        open_log: Callable[["Topic", int], Log],
        expiration_ms: int,
    ) -> None:
        """Nothing is opened yet.

        Args:
            topic: whose partition.
            index: its number.
            open_log: opens its log.
            expiration_ms: after so long a silent producer is forgotten.
        """
        self.topic = topic
        self.index = index
        # None until somebody needs it: a directory may hold thousands.
        self.opened_log: Log | None = None
        # In the order of their arrival.
        self.waiters: dict[DelayedFetch, None] = {}
        self._open = open_log
        self._failure: Exception | None = None
        self._expiration_ms = expiration_ms
        self._producers: ProducerState | None = None

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def log(self) -> Log:
        """The log, opened at the first use.

        Raises:
            StorageError, OSError: it can't be opened. It stays closed until the next start: what is
                damaged is not tried again.
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
        """Whether its log can be read and written, as far as is known."""
        if self._failure is not None:
            return False
        try:
            return self.log is not None
        except (StorageError, OSError):
            return False

    @property
    def failed(self) -> bool:
        """Whether its log could not be opened, or was stopped."""
        return self._failure is not None

    def stop(self, error: OSError) -> None:
        """The directory is lost to us: nothing is appended any more, and nothing opened."""
        self._failure = error
        log = self.opened_log
        if log is not None:
            log.fail(error)

    def close(self) -> None:
        """The topic is gone: answer the fetches that wait here."""
        for waiter in list(self.waiters):
            waiter.finish()

    @property
    def producers(self) -> ProducerState:
        """The idempotent producers; looked up in the log at the first use, which most never see."""
        if self._producers is None:
            self._producers = self._find_producers()
        return self._producers

    @property
    def leader_epoch(self) -> int:
        """The epoch of this broker's leadership, which records and answers carry."""
        return self.log.leader_epoch

    def append(self, batch: bytes, header: BatchHeader, now_ms: int) -> int:
        """Append a producer's batch, already checked; returns its base offset.

        Raises:
            LogFailed, OSError: it could not be written.
        """
        # Looked up before the batch is in the log, so that it is not found there.
        producers = self.producers if header.producer_id >= 0 else None
        base_offset = self.log.append(batch)
        if producers is not None:
            producers.record(header, base_offset, now_ms)
        self._wake(len(batch))
        return base_offset

    def append_own(self, batch: bytes) -> None:
        """Append a batch of the group coordinator. Raises as `append`."""
        self.log.append(batch)
        if self.waiters:
            self._wake(len(batch))

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Whether the log can be read, under the leader epoch a client believes in (KIP-320)."""
        if not self.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def _wake(self, size_bytes: int) -> None:
        for waiter in list(self.waiters):
            waiter.appended(size_bytes)

    def _find_producers(self) -> ProducerState:
        producers = ProducerState(self._expiration_ms)
        for data in self.log.chunks():
            for _, header in iterate_batches(data):
                if header.producer_id >= 0 and not header.is_control:
                    producers.record(header, header.base_offset, header.max_timestamp_ms)
        return producers
