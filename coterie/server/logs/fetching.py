"""Reading for Fetch requests, and fetches that wait for more records (long polls).

A fetch that finds fewer bytes than it asks for is delayed, as Kafka's `DelayedFetch`. Every append
to one of its partitions is reported to it. When enough bytes have arrived it reads again at the end
of the turn of the event loop, so that it takes everything that the turn appended. Otherwise its
time limit ends it, or the loss of its connection.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchResponseAbortedTransaction,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
)
from coterie.server.logs.partition import Partition, Watcher
from coterie.storage.aborted_transactions import AbortedTransaction
from coterie.storage.errors import CorruptLog, OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    import asyncio

    from coterie.server.network.delayed_response import DelayedResponse

READ_UNCOMMITTED, READ_COMMITTED = ISOLATION_LEVELS = (0, 1)

# The watchers of a partition, or of the idle partitions of a fetch session.
Watchers = dict[Watcher, None]


class FetchPartition(NamedTuple):
    """A partition of a fetch, looked up.

    Attributes:
        partition_index: the number of the partition.
        partition: the partition; None if it does not exist.
        error: why it does not exist, or NONE.
        offset, max_bytes: where to read, and how much.
        current_leader_epoch, last_fetched_epoch: the epochs that the client knows, or -1.
    """

    partition_index: int
    partition: Partition | None
    error: ErrorCode
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class PartitionData(NamedTuple):
    """What a fetch found in one partition.

    Attributes:
        response: the partition's part of the response.
        size_bytes: the size of its records.
        answer_now: the response must not wait for more records, because it has an error or a
            diverging epoch.
    """

    response: FetchResponsePartition
    size_bytes: int
    answer_now: bool


def read_partition(
    wanted: FetchPartition, limit_bytes: int, isolation: int, *, first: bool
) -> PartitionData:
    """Read one partition [data-plane/fetch-offset].

    Args:
        wanted: the partition and the position.
        limit_bytes: how many bytes the whole response has left.
        isolation: the isolation level of the request.
        first: no records were found before, so the first batch is read whatever its size is
            [data-plane/first-batch].
    """
    partition = wanted.partition
    if partition is None:
        # As in Kafka, the response waits for the records of others if the partition is unknown.
        refused = refused_partition(wanted.partition_index, wanted.error)
        inconsistent = wanted.error is ErrorCode.INCONSISTENT_TOPIC_ID
        return PartitionData(refused, 0, answer_now=inconsistent)
    # Unlike the other requests, a Fetch takes every negative epoch for a missing one.
    error = partition.epoch_error(max(wanted.current_leader_epoch, -1))
    if error:
        return _error(wanted.partition_index, error)
    log = partition.log
    end = log.log_end_offset
    allowed = min(wanted.max_bytes, limit_bytes)
    try:
        if wanted.last_fetched_epoch >= 0:
            # The log of the client and this one may have diverged [data-plane/diverging-epoch].
            epoch, epoch_end = partition.end_of_epoch(wanted.last_fetched_epoch)
            if epoch_end < 0:
                return _error(wanted.partition_index, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or epoch_end < wanted.offset:
                diverging = FetchResponseDivergingEpoch(epoch=epoch, end_offset=epoch_end)
                response = _response(partition, b"", isolation, diverging)
                return PartitionData(response, 0, answer_now=True)
        if not log.log_start_offset <= wanted.offset <= end:
            return _error(wanted.partition_index, ErrorCode.OFFSET_OUT_OF_RANGE)
        if allowed < 0 and wanted.offset < end:
            return _error(wanted.partition_index, ErrorCode.UNKNOWN_SERVER_ERROR)
        data, aborted = b"", None
        if wanted.offset < end and (first or allowed > 0):
            if isolation == READ_COMMITTED:
                data, aborted = log.read_committed(wanted.offset, allowed)
            else:
                data = log.read(wanted.offset, allowed)
            if len(data) > allowed and not first:
                # `read` returns at least one batch, and this one does not fit.
                data, aborted = b"", None
        response = _response(partition, data, isolation, None, aborted)
    except OffsetOutOfRange:
        return _error(wanted.partition_index, ErrorCode.OFFSET_OUT_OF_RANGE)
    except (StorageError, OSError):
        return _error(wanted.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionData(response, len(data), answer_now=False)


def refused_partition(
    index: int, error: ErrorCode, *, has_list: bool = False
) -> FetchResponsePartition:
    """Return the response for a partition that is not read.

    Args:
        index: the number of the partition.
        error: why it is not read.
        has_list: whether the list of aborted transactions is empty instead of null, as Kafka sends
            it for an unknown isolation level. It does so for unknown partitions, too.
    """
    unknown = error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return FetchResponsePartition(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=[] if unknown or has_list else None,
        records=b"",
    )


def _response(
    partition: Partition,
    data: bytes,
    isolation: int,
    diverging: FetchResponseDivergingEpoch | None,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> FetchResponsePartition:
    log = partition.log
    end = log.log_end_offset
    # With READ_COMMITTED the list must not be null [data-plane/isolation].
    transactions: list[FetchResponseAbortedTransaction] | None = None
    if isolation == READ_COMMITTED:
        transactions = [
            FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset, _, _ in aborted or ()
        ]
    try:
        stable = log.last_stable_offset
    except CorruptLog:
        if isolation == READ_COMMITTED:
            raise
        stable = end
    return FetchResponsePartition(
        partition_index=partition.index,
        error_code=ErrorCode.NONE,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=transactions,
        records=data,
    )


def _error(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(refused_partition(index, error), 0, answer_now=True)


class DelayedFetch:
    """A fetch that waits for more records."""

    __slots__ = (
        "_answer",
        "_done",
        "_is_committed",
        "_loop",
        "_missing_bytes",
        "_timer",
        "_watched",
    )

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop",
        response: "DelayedResponse",
        watched: list[Watchers],
        missing_bytes: int,
        max_wait_ms: int,
        answer: Callable[[], None],
        isolation: int,
    ) -> None:
        """Wait for appends.

        Args:
            loop: the event loop.
            response: the delayed response.
            watched: the watchers of the partitions whose appends count.
            missing_bytes: how many bytes must be appended.
            max_wait_ms: after this time the response has what there is.
            answer: reads again and sends the response.
            isolation: the isolation level.
        """
        assert watched, "a fetch waits for the appends to at least one partition"
        assert missing_bytes > 0, "a fetch that has enough bytes does not wait"
        assert max_wait_ms > 0, "a fetch waits for some time"
        self._loop = loop
        self._watched = watched
        self._missing_bytes = missing_bytes
        self._answer = answer
        self._is_committed = isolation == READ_COMMITTED
        self._done = False
        for watchers in watched:
            watchers[self] = None
        response.on_disconnect = self._end
        self._timer = loop.call_later(max_wait_ms / 1000, self.finish)

    def records_appended(self, size_bytes: int, stable_bytes: int) -> None:
        """Count an append to one of the partitions."""
        was_missing = self._missing_bytes > 0
        self._missing_bytes -= stable_bytes if self._is_committed else size_bytes
        if was_missing and self._missing_bytes <= 0:
            self._loop.call_soon(self.finish)

    def watch(self, watchers: Watchers) -> None:
        """Wait for the appends of another partition, too."""
        assert not self._done, "a fetch that has ended waits for no partition"
        watchers[self] = None
        self._watched.append(watchers)

    def changed(self) -> None:
        """Continue to wait; only new records end the wait."""

    def finish(self) -> None:
        """Answer with the records there are now, unless the fetch has ended."""
        if self._done:
            return
        self._end()
        self._answer()

    def _end(self) -> None:
        self._done = True
        self._timer.cancel()
        for watchers in self._watched:
            watchers.pop(self, None)
