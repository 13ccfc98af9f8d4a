"""Reading the records of a partition with Fetch.

Transactions are not evaluated: control records are left out, and the records of open and aborted
transactions are included.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.client.batches import FetchedBatches, fetch_batches
from coterie.client.cluster import Cluster, TopicPartition
from coterie.protocol.records import Record


class Fetched(NamedTuple):
    """The result of a Fetch.

    Attributes:
        records: the records in order.
        next_offset: the offset at which the next Fetch continues.
        end_offset: the end of the partition at the time of the Fetch.
    """

    records: list[Record]
    next_offset: int
    end_offset: int


def fetch(
    cluster: Cluster, partition: TopicPartition, offset: int, max_wait_ms: int = 0
) -> Fetched:
    """Read records from an offset on, or from the partition's start if it was deleted.

    Args:
        cluster: the cluster.
        partition: topic and number.
        offset: the offset of the first record.
        max_wait_ms: how long the broker may wait for new records.

    Raises:
        Refused: the partition does not exist, or its leader refuses.
        ClientError: a record can't be decoded.
    """
    return fetch_each(cluster, {partition: offset}, max_wait_ms)[partition]


def fetch_each(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], max_wait_ms: int = 0
) -> dict[TopicPartition, Fetched]:
    """Read records of several partitions, with one request to each of their leaders in turn.

    Args:
        cluster: the cluster.
        offsets: the offset of the first record, by partition.
        max_wait_ms: how long each of the leaders may wait for new records in any partition.

    Raises:
        Refused: a partition does not exist, or its leader refuses.
        ClientError: a record can't be decoded.
    """
    found = fetch_batches(cluster, offsets, max_wait_ms=max_wait_ms)
    return {key: _of_batches(each) for key, each in found.items()}


def _of_batches(found: FetchedBatches) -> Fetched:
    records = [
        record
        for batch in found.batches
        if not batch.header.is_control
        for record in found.records(batch)
    ]
    return Fetched(records, found.next_offset, found.end_offset)
