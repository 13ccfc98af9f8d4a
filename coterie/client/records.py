"""Reading the records of a partition with Fetch.

Transactions are not evaluated: control records are left out, and the records of open and aborted
transactions are included. Checksums are not checked, because TCP has its own and the broker has
checked what it stored.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, Refused
from coterie.client.offsets import EARLIEST, partition_offsets
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from coterie.protocol.record_batch_layout import HEADER_BYTES
from coterie.protocol.records import Record, decode_records, read_header
from coterie.protocol.wire import ZERO_UUID

# The maximum size of one response: a large topic takes few round trips, and neither side needs much
# memory.
_FETCH_BYTES = 4 * 1024 * 1024


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
    """
    found = _fetched(cluster, offsets, max_wait_ms)
    lost = [key for key, each in found.items() if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE]
    begins = partition_offsets(cluster, dict.fromkeys(lost, EARLIEST)) if lost else {}
    if lost:
        found |= _fetched(cluster, begins, max_wait_ms)
    return {key: _decoded(key, each, begins.get(key, offsets[key])) for key, each in found.items()}


def _decoded(partition: TopicPartition, found: FetchResponsePartition, offset: int) -> Fetched:
    if found.error_code:
        raise Refused(found.error_code, f"Records of {partition[0]}-{partition[1]}")
    try:
        records, next_offset = _records(found.records or b"", offset)
    except MalformedFrame as error:
        raise ClientError(
            f"A record of {partition[0]}-{partition[1]} can't be decoded: {error}."
        ) from error
    return Fetched(records, next_offset, found.high_watermark)


def _fetched(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], max_wait_ms: int
) -> dict[TopicPartition, FetchResponsePartition]:
    described = cluster.metadata(dict.fromkeys(name for name, _ in offsets)).topics
    ids = {topic.name: topic.topic_id for topic in described}
    names = {topic.topic_id: topic.name or "" for topic in described}

    def request_for(keys: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, list[FetchRequestPartition]] = {}
        for name, index in keys:
            wanted = FetchRequestPartition(
                partition=index,
                fetch_offset=offsets[name, index],
                partition_max_bytes=_FETCH_BYTES,
            )
            topics.setdefault(name, []).append(wanted)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1 if max_wait_ms else 0,
            max_bytes=_FETCH_BYTES,
            # Up to version 12 a topic is identified by its name, from 13 on by its id.
            topics=[
                FetchRequestTopic(topic=name, topic_id=ids.get(name, ZERO_UUID), partitions=parts)
                for name, parts in topics.items()
            ],
        )

    def results(
        response: FetchResponse,
    ) -> dict[TopicPartition, tuple[int, FetchResponsePartition]]:
        found = {
            (topic.topic or names.get(topic.topic_id, ""), each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        # If the whole request is refused the response has no partitions.
        refused = {
            key: _refused(key[1], response.error_code) for key in offsets if not response.responses
        }
        return {key: (each.error_code, each) for key, each in (refused | found).items()}

    return cluster.call_leaders(offsets, request_for, FetchResponse, results)


def _refused(index: int, error: int) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=index,
        error_code=error or ErrorCode.UNKNOWN_SERVER_ERROR,
        high_watermark=-1,
        aborted_transactions=None,
        records=None,
    )


def _records(data: bytes, offset: int) -> tuple[list[Record], int]:
    """Return the records from `offset` on, and the offset after the last whole batch.

    The last batch of a response may be cut off at its maximum size.
    """
    records: list[Record] = []
    position = 0
    next_offset = offset
    # The last batch is cut off if the response had no room for it.
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        if position + header.length_bytes > len(data):
            break
        if not header.is_control:
            records += [
                record
                for record in decode_records(data, header, position)
                if record.offset >= offset
            ]
        position += header.length_bytes
        next_offset = header.next_offset
    return records, next_offset
