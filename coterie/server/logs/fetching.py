"""What a Fetch reads, and fetches that wait for more records (long polls).

Every fetch fills a `Read`, whatever named its partitions and whatever is made of it. A fetch that
finds fewer bytes than it asks for is delayed, as Kafka's `DelayedFetch`. Every append
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
    FetchResponseTopic,
)
from coterie.protocol.records import iterate_batches
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
        topic: the name or the id of its topic, whichever the client uses.
        partition_index: the number of the partition.
        partition: the partition; None if it does not exist.
        error: why it does not exist, or NONE.
        offset, max_bytes: where to read, and how much.
        current_leader_epoch, last_fetched_epoch: the epochs that the client knows, or -1.
    """

    topic: str | bytes
    partition_index: int
    partition: Partition | None
    error: ErrorCode
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class Read:
    """What a request wants to read, and what was found.

    Attributes:
        isolation: the isolation level.
        min_bytes, max_wait_ms: for how many bytes of records the response waits, and how long.
        cuts_batches: what is too large is cut later, so the first batch of each partition is read.
        size_bytes: the size of the records that were found.
        answer_now: the response must not wait for more records, because it has an error or a
            diverging epoch.
        found: the partitions of the response, and their parts of it.
        topics: the same parts as the response lists them: neighbours of one topic are together.
    """

    __slots__ = (
        "_left_bytes",
        "_topic",
        "answer_now",
        "cuts_batches",
        "found",
        "isolation",
        "max_wait_ms",
        "min_bytes",
        "size_bytes",
        "topics",
    )

    def __init__(self, max_bytes: int, min_bytes: int, max_wait_ms: int, isolation: int) -> None:
        """Read nothing yet.

        Args:
            max_bytes: the size limit of the response.
            min_bytes: the response waits for so many bytes, but for no more than fit.
            max_wait_ms: how long it waits.
            isolation: the isolation level.
        """
        self.isolation = isolation
        self.min_bytes = min(min_bytes, max_bytes)
        self.max_wait_ms = max_wait_ms
        self.cuts_batches = False
        self._left_bytes = max_bytes
        self._topic: str | bytes | None = None
        self.size_bytes = 0
        self.answer_now = False
        self.found: list[tuple[FetchPartition, FetchResponsePartition]] = []
        self.topics: list[FetchResponseTopic] = []

    def add(self, wanted: FetchPartition, found: FetchResponsePartition) -> None:
        """Add the part of a partition to the response."""
        self.found.append((wanted, found))
        topic = wanted.topic
        if topic == self._topic:
            self.topics[-1].partitions.append(found)
        else:
            self._topic = topic
            self.topics.append(
                FetchResponseTopic(topic=topic, partitions=[found])
                if isinstance(topic, str)
                else FetchResponseTopic(topic_id=topic, partitions=[found])
            )

    def read_partition(self, wanted: FetchPartition) -> FetchResponsePartition:
        """Read one partition; return its part of the response [data-plane/fetch-offset].

        Before any records were found the first batch is read whatever its size is
        [data-plane/first-batch].
        """
        partition = wanted.partition
        if partition is None:
            # As in Kafka, the response waits for records of others if a partition is unknown.
            if wanted.error is ErrorCode.INCONSISTENT_TOPIC_ID:
                self.answer_now = True
            return refused_partition(wanted.partition_index, wanted.error)
        # Unlike the other requests, a Fetch takes every negative epoch for a missing one.
        error = partition.epoch_error(max(wanted.current_leader_epoch, -1))
        if error:
            return self._error(wanted, error)
        log = partition.log
        end = log.log_end_offset
        allowed = min(wanted.max_bytes, self._left_bytes)
        first = self.size_bytes == 0 or self.cuts_batches
        data, aborted = b"", None
        try:
            if wanted.last_fetched_epoch >= 0:
                diverging = self._diverging(partition, wanted)
                if diverging is not None:
                    return diverging
            if not log.log_start_offset <= wanted.offset <= end:
                return self._error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
            if allowed < 0 and wanted.offset < end:
                return self._error(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)
            if wanted.offset < end and (first or allowed > 0):
                if self.isolation == READ_COMMITTED:
                    data, aborted = log.read_committed(wanted.offset, allowed)
                else:
                    data = log.read(wanted.offset, allowed)
                if len(data) > allowed and not first:
                    # `read` returns at least one batch, and this one does not fit.
                    data, aborted = b"", None
            response = self._response(partition, data, aborted)
        except OffsetOutOfRange:
            return self._error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (StorageError, OSError):
            return self._error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        self.size_bytes += len(data)
        if self._left_bytes > 0:
            self._left_bytes = max(self._left_bytes - len(data), 0)
        return response

    def is_enough(self) -> bool:
        """Return whether the response need not wait for more records [data-plane/long-poll]."""
        return (
            self.answer_now
            or self.size_bytes >= self.min_bytes
            or self.max_wait_ms <= 0
            or self._is_cut()
        )

    def _is_cut(self) -> bool:
        """Return whether records were left out of the response, so that waiting adds nothing to it.

        They did not fit, or are in another segment.
        """
        if not self.size_bytes:
            return False
        is_committed = self.isolation == READ_COMMITTED
        for _, each in self.found:
            end = each.last_stable_offset if is_committed else each.high_watermark
            next_offset = end
            for _, header in iterate_batches(each.records or b""):
                next_offset = header.next_offset
            if next_offset < end:
                return True
        return False

    def _diverging(
        self, partition: Partition, wanted: FetchPartition
    ) -> FetchResponsePartition | None:
        """Return where the client's log and this one diverge [data-plane/epoch-end-offset]."""
        epoch, epoch_end = partition.end_of_epoch(wanted.last_fetched_epoch)
        if epoch_end < 0:
            return self._error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= wanted.last_fetched_epoch and epoch_end >= wanted.offset:
            return None
        self.answer_now = True
        response = self._response(partition, b"", None)
        response.diverging_epoch = FetchResponseDivergingEpoch(epoch=epoch, end_offset=epoch_end)
        return response

    def _error(self, wanted: FetchPartition, error: ErrorCode) -> FetchResponsePartition:
        self.answer_now = True
        return refused_partition(wanted.partition_index, error)

    def _response(
        self, partition: Partition, data: bytes, aborted: Sequence[AbortedTransaction] | None
    ) -> FetchResponsePartition:
        log = partition.log
        end = log.log_end_offset
        # With READ_COMMITTED the list must not be null [data-plane/isolation].
        transactions: list[FetchResponseAbortedTransaction] | None = None
        if self.isolation == READ_COMMITTED:
            transactions = [
                FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset, _, _ in aborted or ()
            ]
        try:
            stable = log.last_stable_offset
        except CorruptLog:
            if self.isolation == READ_COMMITTED:
                raise
            stable = end
        return FetchResponsePartition(
            partition_index=partition.index,
            error_code=ErrorCode.NONE,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=transactions,
            records=data,
        )


# A partition with one of these has an empty list of aborted transactions.
_WITH_LIST = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


def refused_partition(
    index: int, error: ErrorCode, *, has_list: bool = False
) -> FetchResponsePartition:
    """Return the response for a partition that is not read.

    Args:
        index: the number of the partition.
        error: why it is not read.
        has_list: whether the list of aborted transactions is empty instead of null, as Kafka sends
            it for an unknown isolation level. It does so for unknown and refused partitions, too.
    """
    return FetchResponsePartition(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=[] if has_list or error in _WITH_LIST else None,
        records=b"",
    )


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
        read: Read,
        answer: Callable[[], None],
    ) -> None:
        """Wait for appends.

        Args:
            loop: the event loop.
            response: the delayed response.
            watched: the watchers of the partitions whose appends count.
            read: what was found before, and how long to wait for the bytes that are missing.
            answer: reads again and sends the response.
        """
        missing_bytes = read.min_bytes - read.size_bytes
        assert watched, "a fetch waits for the appends to at least one partition"
        assert missing_bytes > 0, "a fetch that has enough bytes does not wait"
        assert read.max_wait_ms > 0, "a fetch waits for some time"
        self._loop = loop
        self._watched = watched
        self._missing_bytes = missing_bytes
        self._answer = answer
        self._is_committed = read.isolation == READ_COMMITTED
        self._done = False
        for watchers in watched:
            watchers[self] = None
        response.on_disconnect = self._end
        self._timer = loop.call_later(read.max_wait_ms / 1000, self.finish)

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
