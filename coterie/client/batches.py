"""Reading the batches of a partition with Fetch, as the broker stores them.

Checksums are not checked, because TCP has its own and the broker has checked what it stored.
"""

from collections.abc import Iterator, Mapping
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
from coterie.protocol.records import BatchHeader, Record, decode_records, read_header
from coterie.protocol.wire import ZERO_UUID

# The maximum size of one response: a large topic takes few round trips, and neither side needs much
# memory.
FETCH_BYTES = 4 * 1024 * 1024


class StoredBatch(NamedTuple):
    """A whole batch in the bytes of a response.

    Attributes:
        header: its header.
        position: where it begins.
    """

    header: BatchHeader
    position: int


class FetchedBatches(NamedTuple):
    """The result of a Fetch.

    Attributes:
        partition: topic and number.
        data: the bytes of the batches.
        batches: the whole batches in order; the first may begin before the offset that was asked.
        offset: where reading began: what was asked, or the start if that was deleted.
        next_offset: where the next Fetch continues; `offset` if there was no whole batch.
        end_offset: the end of the partition at the time of the Fetch.
        aborted: producer and first offset of aborted transactions in these batches; empty unless
            only committed records were asked for.
    """

    partition: TopicPartition
    data: bytes
    batches: list[StoredBatch]
    offset: int
    next_offset: int
    end_offset: int
    aborted: list[tuple[int, int]]

    def records(self, batch: StoredBatch) -> list[Record]:
        """Return the records of a batch from the offset on that was asked for.

        Raises:
            ClientError: they can't be decoded.
        """
        try:
            found = decode_records(self.data, batch.header, batch.position)
        except MalformedFrame as error:
            raise _undecodable(self.partition, error) from error
        if found and found[0].offset < self.offset:
            return [each for each in found if each.offset >= self.offset]
        return found


def fetch_batches(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int = 0,
    max_bytes: int = FETCH_BYTES,
    only_committed: bool = False,
) -> dict[TopicPartition, FetchedBatches]:
    """Read batches from offsets on, or from a partition's start if its offset was deleted.

    Each leader is sent one request, and they are asked in turn.

    Args:
        cluster: the cluster.
        offsets: the offset of the first record, by partition.
        max_wait_ms: how long each leader may wait for new records in any partition.
        max_bytes: how large a response may be; a first batch is sent whatever its size.
        only_committed: whether to end at the last stable offset, and to ask what was aborted.

    Raises:
        Refused: a partition does not exist, or its leader refuses.
        ClientError: a header can't be decoded.
    """
    ask = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=int(only_committed),
        topics=[],
    )
    found = _fetched(cluster, offsets, ask)
    lost = [key for key, each in found.items() if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE]
    begins = dict(offsets)
    if lost:
        starts = partition_offsets(cluster, dict.fromkeys(lost, EARLIEST))
        begins |= starts
        found |= _fetched(cluster, starts, ask)
    return {key: _batches(key, each, begins[key]) for key, each in found.items()}


def _batches(
    partition: TopicPartition, found: FetchResponsePartition, offset: int
) -> FetchedBatches:
    if found.error_code:
        raise Refused(found.error_code, f"Records of {partition[0]}-{partition[1]}")
    data = found.records or b""
    try:
        batches = list(_whole_batches(data))
    except MalformedFrame as error:
        raise _undecodable(partition, error) from error
    return FetchedBatches(
        partition,
        data,
        batches,
        offset,
        batches[-1].header.next_offset if batches else offset,
        found.high_watermark,
        [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()],
    )


def _undecodable(partition: TopicPartition, error: MalformedFrame) -> ClientError:
    return ClientError(f"A record of {partition[0]}-{partition[1]} can't be decoded: {error}.")


def _fetched(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ask: FetchRequest
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
                partition_max_bytes=ask.max_bytes,
            )
            topics.setdefault(name, []).append(wanted)
        # Up to version 12 a topic is identified by its name, from 13 on by its id.
        ask.topics = [
            FetchRequestTopic(topic=name, topic_id=ids.get(name, ZERO_UUID), partitions=parts)
            for name, parts in topics.items()
        ]
        return ask

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


def _whole_batches(data: bytes) -> Iterator[StoredBatch]:
    """Yield the batches; the last one is cut off if the response had no room for it."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        if position + header.length_bytes > len(data):
            return
        yield StoredBatch(header, position)
        position += header.length_bytes
