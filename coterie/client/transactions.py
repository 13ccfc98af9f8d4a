"""Administration of transactions: list, describe, find those that hang, abort one (KIP-664).

A transaction hangs in a partition if its records are open there although no coordinator will end
them: readers of committed records stop at them for ever [client/hanging-transactions].
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.connection import Deadline
from coterie.client.errors import ClientError, Refused, VersionUnsupported
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from coterie.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransaction,
)
from coterie.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)

# A producer of a partition without an open transaction.
_NOT_OPEN = -1
# The coordinator epoch of a producer that no marker has reached yet.
_NO_COORDINATOR = -1
# The first versions with a least duration and with a pattern.
_DURATION_SINCE = 1
_PATTERN_SINCE = 2


class Filter(NamedTuple):
    """Which transactional ids are listed.

    Attributes:
        states: names of states; empty for all.
        producer_ids: producer ids; empty for all.
        duration_ms: how long the transaction is open at least; -1 for any.
        pattern: a regular expression for the whole id; None for any.
    """

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(NamedTuple):
    """A transactional id and the broker that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """The state of a transactional id, and the broker that coordinates it."""

    coordinator_id: int
    state: DescribeTransactionsResponseTransaction


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition.

    Attributes:
        partition: topic and number.
        producer_id, producer_epoch: the producer.
        coordinator_epoch: of the last marker of the producer; -1 if there was none.
        start_offset: of its first record.
        last_timestamp_ms: of its last batch.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


def list_transactions(cluster: Cluster, wanted: Filter) -> list[ListedTransaction]:
    """Return the transactional ids of all brokers.

    Raises:
        ClientError: a state does not exist, or a broker cannot filter like this.
    """
    least = _PATTERN_SINCE if wanted.pattern else _DURATION_SINCE if wanted.duration_ms >= 0 else 0
    version = cluster.any_broker(Deadline(cluster.timeout_s)).version_for(ListTransactionsRequest)
    if version < least:
        raise VersionUnsupported(f"The broker has ListTransactions {version}, not {least}.")
    request = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=wanted.duration_ms,
        transactional_id_pattern=wanted.pattern,
    )
    found = []
    for node in cluster.brokers():
        response = cluster.call_node(node, request, ListTransactionsResponse)
        if response.error_code:
            raise Refused(response.error_code, f"Transactions of broker {node.node_id}")
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise ClientError(
                f"No state of a transaction has the name {names}.",
                "States are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit and"
                " CompleteAbort.",
            )
        found += [
            ListedTransaction(
                each.transactional_id, node.node_id, each.producer_id, each.transaction_state
            )
            for each in response.transaction_states
        ]
    return sorted(found)


def describe_transactions(
    cluster: Cluster, transactional_ids: Sequence[str]
) -> dict[str, DescribedTransaction]:
    """Return the states of ids; each broker knows those that it coordinates.

    Raises:
        Refused: an id is not known, or its coordinator is not available.
    """
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    found: dict[str, DescribedTransaction] = {}
    errors: dict[str, int] = {}
    for node in cluster.brokers():
        response = cluster.call_node(node, request, DescribeTransactionsResponse)
        for each in response.transaction_states:
            if not each.error_code:
                found[each.transactional_id] = DescribedTransaction(node.node_id, each)
            elif each.error_code != ErrorCode.NOT_COORDINATOR:
                errors[each.transactional_id] = each.error_code
    for name in transactional_ids:
        if name not in found:
            # A cluster in which no transaction ever began has no coordinator.
            error = errors.get(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            raise Refused(error, f"Transactional id '{name}'")
    return found


def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """Return the transactions that are open in some partitions."""

    def request_for(keys: list[TopicPartition]) -> DescribeProducersRequest:
        topics: dict[str, list[int]] = {}
        for topic, index in keys:
            topics.setdefault(topic, []).append(index)
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ]
        )

    found = cluster.call_leaders(
        partitions,
        request_for,
        DescribeProducersResponse,
        lambda response: {
            (topic.name, each.partition_index): (each.error_code, each)
            for topic in response.topics
            for each in topic.partitions
        },
    )
    transactions = []
    for partition, described in sorted(found.items()):
        if described.error_code:
            name, index = partition
            raise Refused(
                described.error_code, f"Producers of {name}-{index}", described.error_message
            )
        transactions += [
            OpenTransaction(
                partition,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.current_txn_start_offset,
                each.last_timestamp,
            )
            for each in described.active_producers
            if each.current_txn_start_offset != _NOT_OPEN
        ]
    return transactions


def hanging_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], before_ms: int
) -> list[OpenTransaction]:
    """Return open transactions that nothing will end.

    Args:
        cluster: the cluster.
        partitions: where to look.
        before_ms: transactions with a later batch are not suspected: no producer may keep one open
            for longer than the broker's transaction.max.timeout.ms.
    """
    suspected = [
        each
        for each in open_transactions(cluster, partitions)
        if each.last_timestamp_ms < before_ms
    ]
    if not suspected:
        return []
    producer_ids = sorted({each.producer_id for each in suspected})
    listed = list_transactions(cluster, Filter(producer_ids=producer_ids))
    ids = {each.producer_id: each.transactional_id for each in listed}
    described = describe_transactions(cluster, sorted(ids.values())) if ids else {}
    return [each for each in suspected if not _is_coordinated(each, ids, described)]


def _is_coordinated(
    suspected: OpenTransaction,
    ids: dict[int, str],
    described: dict[str, DescribedTransaction],
) -> bool:
    """Return whether a coordinator knows that the partition is in the producer's transaction."""
    transactional_id = ids.get(suspected.producer_id)
    if transactional_id is None:
        return False
    topic, index = suspected.partition
    return any(
        each.topic == topic and index in each.partitions
        for each in described[transactional_id].state.topics
    )


def abort_in_partition(cluster: Cluster, transaction: OpenTransaction) -> None:
    """End a transaction in its partition by force, as aborted.

    Raises:
        Refused: the producer has gone on, or the partition is not available.
    """
    topic, index = transaction.partition
    marker = WriteTxnMarkersRequestMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequestTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
    )
    found = cluster.call_leaders(
        [transaction.partition],
        lambda _: WriteTxnMarkersRequest(markers=[marker]),
        WriteTxnMarkersResponse,
        lambda response: {
            (named.name, each.partition_index): (each.error_code, each.error_code)
            for answered in response.markers
            for named in answered.topics
            for each in named.partitions
        },
    )
    error = found[transaction.partition]
    if error:
        raise Refused(error, f"Transaction of producer {transaction.producer_id}")
