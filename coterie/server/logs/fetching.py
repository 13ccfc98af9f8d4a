"""Reading for Fetch, and the fetches that wait for more (long polls).

A fetch that found less than it asked for is parked on its partitions. Every append tells it how
much came; when that is enough it reads once more, at the end of the turn, so that it takes
everything the turn brought. Its time limit, or the loss of its connection, ends it otherwise.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchResponseAbortedTransaction,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
)
from coterie.server.logs.partition import Partition
from coterie.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    import asyncio

    from coterie.server.network.delayed_response import DelayedResponse

READ_COMMITTED = 1


class FetchPartition(NamedTuple):
    """One partition of a fetch: where it stands, or why it can't be read.

    Attributes:
        index: the partition's number.
        partition: None where there is none, with `error` saying why.
        offset, max_bytes: from where, and how much.
        current_leader_epoch, last_fetched_epoch: what the client believes, -1 where it does not
            say.
    """

    number: int
    partition: Partition | None
    error: ErrorCode
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class PartitionData(NamedTuple):
    """The answer for one partition."""

    response: FetchResponsePartition
    size_bytes: int
    # The answer must not wait: an error, or something else than records to tell.
    urgent: bool


def read_partition(
    wanted: FetchPartition, limit_bytes: int, isolation: int, *, first: bool
) -> PartitionData:
    """Read one partition.

    Args:
        wanted: what and from where.
        limit_bytes: what the whole answer has left.
        isolation: the request's isolation level.
        first: nothing has been found yet, so one batch is read whatever its size (KIP-74).
    """
    partition = wanted.partition
    if partition is None:
        return _error(wanted.number, wanted.error)
    error = partition.epoch_error(wanted.current_leader_epoch)
    if error:
        return _error(wanted.number, error)
    if wanted.max_bytes < 0:
        return _error(wanted.number, ErrorCode.UNKNOWN_SERVER_ERROR)
    log = partition.log
    end = log.log_end_offset
    if wanted.last_fetched_epoch > partition.leader_epoch:
        return _error(wanted.number, ErrorCode.OFFSET_OUT_OF_RANGE)
    if wanted.last_fetched_epoch >= 0 and wanted.offset > end:
        diverging = FetchResponseDivergingEpoch(epoch=partition.leader_epoch, end_offset=end)
        return PartitionData(_response(partition, b"", isolation, diverging), 0, urgent=True)
    allowed = min(wanted.max_bytes, limit_bytes)
    try:
        if not log.log_start_offset <= wanted.offset <= end:
            return _error(wanted.number, ErrorCode.OFFSET_OUT_OF_RANGE)
        data = b""
        if wanted.offset < end and (first or allowed > 0):
            data = log.read(wanted.offset, max(allowed, 0))
            if len(data) > allowed and not first:
                data = b""
    except OffsetOutOfRange:
        return _error(wanted.number, ErrorCode.OFFSET_OUT_OF_RANGE)
    except (StorageError, OSError):
        return _error(wanted.number, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionData(_response(partition, data, isolation, None), len(data), urgent=False)


def _response(
    partition: Partition,
    data: bytes,
    isolation: int,
    diverging: FetchResponseDivergingEpoch | None,
) -> FetchResponsePartition:
    end = partition.log.log_end_offset
    # There are no transactions here, so none is aborted; who reads committed ones gets a list.
    aborted: list[FetchResponseAbortedTransaction] | None = (
        [] if isolation == READ_COMMITTED else None
    )
    return FetchResponsePartition(
        partition_index=partition.index,
        error_code=ErrorCode.NONE,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=partition.log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=data,
    )


def refused_partition(index: int, error: ErrorCode) -> FetchResponsePartition:
    """The answer for a partition that is not read."""
    unknown = error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return FetchResponsePartition(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=[] if unknown else None,
        records=b"",
    )


def _error(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(refused_partition(index, error), 0, urgent=True)


class DelayedFetch:
    """A parked fetch."""

    __slots__ = ("_answer", "_done", "_loop", "_missing_bytes", "_partitions", "_reply", "_timer")

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop",
        reply: "DelayedResponse",
        partitions: list[Partition],
        missing_bytes: int,
        max_wait_ms: int,
        answer: Callable[[], object],
    ) -> None:
        """Wait for appends.

        Args:
            loop: whose turns and timers are used.
            reply: where the answer goes; its connection is parked.
            partitions: appends to these count.
            missing_bytes: how much must come.
            max_wait_ms: after which time the answer leaves with what there is.
            answer: reads anew and makes the answer.
        """
        self._loop = loop
        self._reply = reply
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._answer = answer
        self._done = False
        for partition in partitions:
            partition.waiters[self] = None
        reply.on_disconnect = self._forget
        self._timer = loop.call_later(max_wait_ms / 1000, self.finish)

    def appended(self, size_bytes: int) -> None:
        """One of the partitions grew."""
        was_missing = self._missing_bytes > 0
        self._missing_bytes -= size_bytes
        if was_missing and self._missing_bytes <= 0:
            self._loop.call_soon(self.finish)

    def finish(self) -> None:
        """Answer with what there is now."""
        if self._done:
            return
        self._forget()
        self._reply.send(self._answer())

    def _forget(self) -> None:
        self._done = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.pop(self, None)
