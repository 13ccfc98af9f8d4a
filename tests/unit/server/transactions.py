"""Requests about the markers of transactions, and a coordinator that a test decides for."""

from collections.abc import Callable
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from coterie.server.transactions.use import TransactionUse, TransactionUses
from tests.unit.server.manual import Client
from tests.unit.server.produced import batch, produce_request


def marker(
    producer_id: int,
    epoch: int,
    *partitions: int,
    commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 0,
    topic: str = "t",
) -> WriteTxnMarkersRequestMarker:
    """Return the marker of some partitions of a topic, by default of partition 0."""
    named = WriteTxnMarkersRequestTopic(name=topic, partition_indexes=list(partitions or (0,)))
    return WriteTxnMarkersRequestMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[named],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def write_markers(client: Client, *markers: WriteTxnMarkersRequestMarker) -> dict[int, Any]:
    """Write markers; return the errors by producer, topic and partition."""
    answer = client.call(WriteTxnMarkersRequest(markers=list(markers)), 2)
    return {
        each.producer_id: {
            topic.name: {one.partition_index: one.error_code for one in topic.partitions}
            for topic in each.topics
        }
        for each in answer.markers
    }


def write_marker(client: Client, producer_id: int, epoch: int, **fields: Any) -> int:
    """Write the marker of partition 0 of a topic; return its error."""
    ((topics,),) = (
        write_markers(client, marker(producer_id, epoch, **fields))[producer_id].values(),
    )
    return int(topics[0])


def describe_producers(client: Client, *partitions: int, topic: str = "t") -> Any:
    """Describe the producers of some partitions of a topic, by default of partition 0."""
    named = DescribeProducersRequestTopic(name=topic, partition_indexes=list(partitions or (0,)))
    return client.call(DescribeProducersRequest(topics=[named]), 0).topics[0].partitions


def transactional_request(
    *values: bytes,
    producer: tuple[int, int, int] = (7, 0, 0),
    transactional_id: str = "x",
    **fields: Any,
) -> Any:
    """Make a request with a batch of a transaction."""
    request = produce_request(batch(*values, producer=producer, transactional=True), **fields)
    request.transactional_id = transactional_id
    return request


class DecidedUses(TransactionUses):
    """A coordinator whose transaction has the partitions in a set.

    Attributes:
        added: the partitions of the transaction.
        error: what every question is answered with, if it is not NONE.
        waiting: what the caller is told later, in place of an answer at once; None for at once.
        asked: every question.
    """

    def __init__(self, *added: tuple[str, int], error: ErrorCode = ErrorCode.NONE) -> None:
        self.added = set(added)
        self.error = error
        self.waiting: list[Callable[[ErrorCode], None]] | None = None
        self.asked: list[TransactionUse] = []

    def use_partitions(
        self, use: TransactionUse, done: Callable[[ErrorCode], None]
    ) -> ErrorCode | None:
        self.asked.append(use)
        if self.error:
            return self.error
        if use.add:
            is_new = not self.added.issuperset(use.partitions)
            self.added.update(use.partitions)
            if is_new and self.waiting is not None:
                self.waiting.append(done)
                return None
        is_added = self.added.issuperset(use.partitions)
        return ErrorCode.NONE if is_added else ErrorCode.TRANSACTION_ABORTABLE
