"""Appending the markers that end transactions [transactions/marker-batches].

The transaction coordinator requests all markers of a transaction and continues when the last one is
durable; an administrator requests single ones with WriteTxnMarkers. Markers of `__consumer_offsets`
go to the group coordinator, which commits or drops the pending offsets.

Invariant: a marker that could not be appended for a reason that may pass is tried again until the
broker stops [transactions/marker-retries]. The next start requests it again.
"""

from asyncio import TimerHandle
from collections.abc import Callable, Iterator
from functools import partial

from coterie.protocol.control_records import TransactionMarkers, encode_marker
from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.environment import Environment
from coterie.server.failures import Failures
from coterie.server.logs.flusher import Flusher
from coterie.server.logs.logs import Logs
from coterie.server.logs.partition import OPEN, Partition
from coterie.server.slices import Slices, raise_failure
from coterie.storage.errors import OutOfHandles, StorageError

# The pause before markers are tried again.
RETRY_S = 0.5

# How many markers are appended at once; more of them are appended in slices.
_AT_ONCE = 32

# From this level on the epoch of a marker is above that of the records [transactions/levels].
RAISES_EPOCH = 2

# After these answers nothing is retried: the marker is durable, or the partition must not get it.
_FINAL = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)

Answer = Callable[[ErrorCode], None]
# Appends a marker to a partition of __consumer_offsets: its number, the marker, and what to call
# with the result.
OffsetsMarker = Callable[[int, TransactionMarkers, Answer], None]


class MarkerWriter:
    """Appends markers.

    Attributes:
        write_offsets_marker: appends those of `__consumer_offsets`.
    """

    def __init__(
        self,
        environment: Environment,
        logs: Logs,
        flusher: Flusher,
        slices: Slices,
        failures: Failures,
        write_offsets_marker: OffsetsMarker,
    ) -> None:
        """Write nothing yet.

        Args:
            environment: its loop and clock.
            logs: the logs that get markers.
            flusher: syncs logs.
            slices: does work that takes long.
            failures: takes the logs that fail.
            write_offsets_marker: appends the markers of `__consumer_offsets`.
        """
        self.write_offsets_marker = write_offsets_marker
        self._loop = environment.loop
        self._now_ms = environment.now_ms
        self._logs = logs
        self._flusher = flusher
        self._slices = slices
        self._failures = failures
        # The markers that are not all durable; others are not tried again.
        self._wanted: set[TransactionMarkers] = set()
        # What is tried again, and when.
        self._again: list[Callable[[], None]] = []
        self._timer: TimerHandle | None = None
        self._stopped = False

    def write(self, markers: TransactionMarkers, done: Callable[[], None]) -> None:
        """Append the markers of a transaction, and call `done` when all are durable.

        Partitions that do not exist, or that must not get the marker, count as done.
        """
        left = len(markers.partitions) + 1
        self._wanted.add(markers)

        def one_done() -> None:
            nonlocal left
            left -= 1
            assert left >= 0, "a marker is done once"
            if not left:
                self._wanted.discard(markers)
                done()

        for name, index in markers.partitions[:_AT_ONCE]:
            self._write_until_done(markers, name, index, one_done)
        if len(markers.partitions) > _AT_ONCE:
            self._slices.submit(self._write_rest(markers, one_done), raise_failure)
        one_done()

    def forget(self, markers: TransactionMarkers) -> None:
        """Do not try the markers of a transaction again: another broker coordinates it now."""
        self._wanted.discard(markers)

    def _write_rest(
        self, markers: TransactionMarkers, one_done: Callable[[], None]
    ) -> Iterator[None]:
        for name, index in markers.partitions[_AT_ONCE:]:
            self._write_until_done(markers, name, index, one_done)
            yield

    def _write_until_done(
        self, markers: TransactionMarkers, name: str, index: int, one_done: Callable[[], None]
    ) -> None:
        def answered(error: ErrorCode) -> None:
            if error in _FINAL:
                one_done()
            elif markers in self._wanted:
                again = partial(self._write_until_done, markers, name, index, one_done)
                self._try_later(again)

        if markers in self._wanted:
            self.send_one(markers, name, index, answered)

    def _try_later(self, call: Callable[[], None]) -> None:
        self._again.append(call)
        if self._timer is None and not self._stopped:
            self._timer = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        calls, self._again = self._again, []
        for call in calls:
            call()

    def stop(self) -> None:
        """Stop the retries; the next start requests these markers again."""
        self._stopped = True
        self._again.clear()
        if self._timer is not None:
            self._timer.cancel()

    # --- one marker -------------------------------------------------------------------------------

    def send_one(
        self, markers: TransactionMarkers, name: str, index: int, answered: Answer
    ) -> None:
        """Have the leader of a partition append a marker: this broker, if it is the only one."""
        self.write_one(markers, name, index, answered)

    def write_one(
        self, markers: TransactionMarkers, name: str, index: int, answered: Answer
    ) -> None:
        """Append the marker of one partition; `answered` gets NONE when it is durable."""
        if name == OFFSETS_TOPIC:
            self.write_offsets_marker(index, markers, answered)
            return
        found = self._logs.led(name, index)
        if not isinstance(found, Partition):
            answered(found)
        elif found.topic.is_own:
            answered(ErrorCode.INVALID_TOPIC_EXCEPTION)
        elif found.opened_log is None and self._logs.opener.may_open(found):
            self._logs.opener.open([found], partial(self._append, markers, found, answered))
        else:
            self._append(markers, found, answered)

    def _append(self, markers: TransactionMarkers, found: Partition, answered: Answer) -> None:
        if found.state is not OPEN:
            is_deleted = self._logs.topics.by_name.get(found.topic.name) is not found.topic
            answered(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if is_deleted
                else ErrorCode.KAFKA_STORAGE_ERROR
            )
            return
        log = found.log
        producer_id, epoch = markers.producer_id, markers.producer_epoch
        coordinator_epoch, now_ms = markers.coordinator_epoch, self._now_ms()
        try:
            error = log.producers.check_marker(
                producer_id,
                epoch,
                coordinator_epoch,
                raises_epoch=markers.transaction_version >= RAISES_EPOCH,
            )
            if error:
                answered(error)
                return
            batch = encode_marker(
                log.log_end_offset,
                now_ms,
                producer_id,
                epoch,
                commit=markers.commit,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=log.leader_epoch,
            )
            found.append_marker(batch, now_ms)
            if found.first_sequences is not None:
                found.first_sequences.forget(producer_id)
        except OutOfHandles:
            answered(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        except (StorageError, OSError) as failure:
            self._failures.log_failed(log, failure)
            answered(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if not self._flusher.commit:
            self._flusher.appended(log)
            answered(ErrorCode.NONE)
            return

        def synced(failure: Exception | None) -> None:
            answered(ErrorCode.NONE if failure is None else ErrorCode.KAFKA_STORAGE_ERROR)

        self._flusher.appended(log, synced)
