"""Reading the records of one partition: a Fetch of what there is from an offset on.

Markers of transactions are left out, and what they say is not looked at: records of transactions
that are open or were aborted are there too. Nor are checksums: TCP has its own, and the broker
checked what it stored.
"""

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
from coterie.protocol.records import Record, decode_records, read_header
from coterie.protocol.wire import ZERO_UUID

# What one answer may hold: a few round trips for a large topic, and no burden on either side.
_FETCH_BYTES = 4 * 1024 * 1024
# A batch is cut off where the answer had no room for it: nothing shorter can be looked at.
_SMALLEST_BATCH_BYTES = 61


class Fetched(NamedTuple):
    """What one Fetch brought.

    Attributes:
        records: in order.
        next_offset: where the next Fetch goes on.
        end_offset: where the partition ended when this was read.
    """

    records: list[Record]
    next_offset: int
    end_offset: int


def fetch(
    cluster: Cluster, partition: TopicPartition, offset: int, max_wait_ms: int = 0
) -> Fetched:
    """Read records from an offset on; from the partition's first one where that is gone by now.

    Args:
        cluster: where.
        partition: topic and number.
        offset: of the first record that is wanted.
        max_wait_ms: how long the broker may wait for a record to come.

    Raises:
        Refused: the partition does not exist, or its leader refuses.
    """
    found = _fetched(cluster, partition, offset, max_wait_ms)
    if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        offset = partition_offsets(cluster, {partition: EARLIEST})[partition]
        found = _fetched(cluster, partition, offset, max_wait_ms)
    if found.error_code:
        raise Refused(found.error_code, f"Records of {partition[0]}-{partition[1]}")
    try:
        records, next_offset = _records(found.records or b"", offset)
    except MalformedFrame as error:
        raise ClientError(
            f"A record of {partition[0]}-{partition[1]} can't be read: {error}."
        ) from (error)
    return Fetched(records, next_offset, found.high_watermark)


def _fetched(
    cluster: Cluster, partition: TopicPartition, offset: int, max_wait_ms: int
) -> FetchResponsePartition:
    name, index = partition
    topics = {topic.name: topic.topic_id for topic in cluster.metadata([name]).topics}

    def request_for(_: list[TopicPartition]) -> FetchRequest:
        wanted = FetchRequestPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        # By name to version 12, by id from 13 on.
        topic = FetchRequestTopic(
            topic=name, topic_id=topics.get(name, ZERO_UUID), partitions=[wanted]
        )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1 if max_wait_ms else 0,
            max_bytes=_FETCH_BYTES,
            topics=[topic],
        )

    def results(
        answer: FetchResponse,
    ) -> dict[TopicPartition, tuple[int, FetchResponsePartition]]:
        answers = [each for topic in answer.responses for each in topic.partitions]
        # An error of the whole stands at the top, and then there are no partitions.
        found = answers[0] if answers else _refused(index, answer.error_code)
        return {partition: (found.error_code, found)}

    return cluster.ask_leaders([partition], request_for, FetchResponse, results)[partition]


def _refused(index: int, error: int) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=index,
        error_code=error or ErrorCode.UNKNOWN_SERVER_ERROR,
        high_watermark=-1,
        aborted_transactions=None,
        records=None,
    )


def _records(data: bytes, offset: int) -> tuple[list[Record], int]:
    """The records from `offset` on in whole batches, and the offset behind the last batch."""
    records: list[Record] = []
    position = 0
    next_offset = offset
    while position + _SMALLEST_BATCH_BYTES <= len(data):
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
