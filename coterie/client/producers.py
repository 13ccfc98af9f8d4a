"""Producers of a partition and their open transactions: describe, find hanging ones, abort one.

A transaction hangs in a partition if its records are open there although no coordinator will end
them: readers of committed records stop at them for ever [client/hanging-transactions].
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, Refused
from coterie.client.nodes import Node
from coterie.client.transactions import (
    DescribedTransaction,
    Filter,
    describe_transactions,
    list_transactions,
)
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
)
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)

# The first epoch of a coordinator; a producer that no marker has reached yet has none, -1.
_FIRST_COORDINATOR_EPOCH = 0


class Producer(NamedTuple):
    """A producer that a partition remembers.

    Attributes:
        partition: topic and number.
        producer_id, producer_epoch: the producer.
        coordinator_epoch: of the last marker of the producer; -1 if there was none.
        start_offset: of the first record of its open transaction; None if none is open.
        last_timestamp_ms: of its last batch.
        last_sequence: of its last record; -1 after a marker.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None
    last_timestamp_ms: int
    last_sequence: int


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], broker_id: int | None = None
) -> list[Producer]:
    """Return the producers that partitions remember.

    Args:
        cluster: the cluster.
        partitions: the partitions.
        broker_id: the broker to ask, which has replicas of them; None for the leader of each.

    Raises:
        ClientError: a partition or the broker does not exist, or it has no replica there.
    """
    wanted = list(partitions)
    if broker_id is None:
        found = cluster.call_leaders(wanted, _request_for, DescribeProducersResponse, _described)
    else:
        node = _broker(cluster, broker_id)
        response = cluster.call_node(node, _request_for(wanted), DescribeProducersResponse)
        found = {partition: each for partition, (_, each) in _described(response).items()}
    producers = []
    for (topic, index), described in sorted(found.items(), key=itemgetter(0)):
        if described.error_code:
            what = f"Producers of {topic}-{index}"
            raise Refused(described.error_code, what, described.error_message)
        producers += [
            Producer(
                (topic, index),
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
                each.last_timestamp,
                each.last_sequence,
            )
            for each in described.active_producers
        ]
    return producers


def _broker(cluster: Cluster, broker_id: int) -> Node:
    nodes = {node.node_id: node for node in cluster.brokers()}
    if broker_id not in nodes:
        ids = ", ".join(map(str, nodes))
        raise ClientError(f"Broker {broker_id} does not exist.", f"The brokers are {ids}.")
    return nodes[broker_id]


def _request_for(partitions: list[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in topics.items()
        ]
    )


def _described(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, tuple[int, DescribeProducersResponsePartition]]:
    return {
        (topic.name, each.partition_index): (each.error_code, each)
        for topic in response.topics
        for each in topic.partitions
    }


def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], broker_id: int | None = None
) -> list[Producer]:
    """Return the producers that have a transaction open in some partitions."""
    producers = describe_producers(cluster, partitions, broker_id)
    return [each for each in producers if each.start_offset is not None]


def hanging_transactions(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    before_ms: int,
    broker_id: int | None = None,
) -> list[Producer]:
    """Return the producers of open transactions that nothing will end.

    Args:
        cluster: the cluster.
        partitions: where to look.
        before_ms: transactions with a later batch are not suspected: no producer may keep one open
            for longer than the broker's transaction.max.timeout.ms.
        broker_id: the broker to ask; None for the leader of each partition.
    """
    suspected = [
        each
        for each in open_transactions(cluster, partitions, broker_id)
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
    suspected: Producer,
    ids: dict[int, str],
    described: dict[str, DescribedTransaction],
) -> bool:
    """Return whether a coordinator has the partition in the producer's transaction."""
    transactional_id = ids.get(suspected.producer_id)
    if transactional_id is None:
        return False
    topic, index = suspected.partition
    return any(
        each.topic == topic and index in each.partitions
        for each in described[transactional_id].state.topics
    )


def abort_in_partition(
    cluster: Cluster,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """End the transaction of a producer in a partition by force, as aborted.

    Args:
        cluster: the cluster.
        partition: the partition.
        producer_id, producer_epoch: the producer.
        coordinator_epoch: of the last marker of the producer; -1 if there was none.

    Raises:
        Refused: the producer has gone on, or the partition is not available.
    """
    topic, index = partition
    marker = WriteTxnMarkersRequestMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequestTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(coordinator_epoch, _FIRST_COORDINATOR_EPOCH),
    )
    found = cluster.call_leaders(
        [partition],
        lambda _: WriteTxnMarkersRequest(markers=[marker]),
        WriteTxnMarkersResponse,
        lambda response: {
            (named.name, each.partition_index): (each.error_code, each.error_code)
            for answered in response.markers
            for named in answered.topics
            for each in named.partitions
        },
    )
    error = found[partition]
    if error:
        raise Refused(error, f"Transaction of producer {producer_id}")
