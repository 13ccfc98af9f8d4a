"""Requests to the leaders of partitions."""

from dataclasses import dataclass
from typing import Any

from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from coterie.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from tests.compared.transactions.plain_values import RECORD_MS
from tests.compared.transactions.side import Identity, Side, Who
from tests.compared.transactions.step import Partitions, Step, by_topic
from tests.unit.server.produced import batch

# The first versions that name topics by id.
_PRODUCE_BY_ID = 13
_FETCH_BY_ID = 13
_GAP = 3


@dataclass(frozen=True)
class Produce(Step):
    """One batch to each of some partitions.

    Attributes:
        who: the producer of the batches; None for none.
        transactional_id: of the request.
        is_transactional: whether the batches have the bit.
        sequence: "next", "repeated", "gap" or "zero".
        count: the number of records.
        number: of the step, from which times and values follow.
    """

    who: Who | None
    transactional_id: str | None
    partitions: Partitions
    is_transactional: bool
    sequence: str = "next"
    count: int = 1
    number: int = 0
    acks: int = -1

    def request(self, side: Side) -> Any:
        identity = Identity(-1, -1) if self.who is None else side.identity(self.who)
        topics = []
        for topic, numbers in by_topic(self.partitions).items():
            data = []
            for partition in numbers:
                base = self._base(side, identity, topic, partition)
                values = [b"%d-%d" % (self.number, each) for each in range(self.count)]
                records = batch(
                    *values,
                    timestamp_ms=RECORD_MS + self.number,
                    producer=(*identity, base),
                    transactional=self.is_transactional,
                )
                data.append(ProduceRequestPartition(index=partition, records=records))
            name = topic if self.version < _PRODUCE_BY_ID else ""
            topic_id = side.topic_id(topic) if self.version >= _PRODUCE_BY_ID else bytes(16)
            topics.append(ProduceRequestTopic(name=name, topic_id=topic_id, partition_data=data))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=5_000,
            topic_data=topics,
        )

    def _base(self, side: Side, identity: Identity, topic: str, partition: int) -> int:
        if self.who is None:
            return -1
        following = side.sequences.get((identity, topic, partition), 0)
        if self.sequence == "repeated":
            return side.bases.get((identity, topic, partition), 0)
        if self.sequence == "gap":
            return following + _GAP
        return 0 if self.sequence == "zero" else following

    def learn(self, side: Side, answer: Any) -> None:
        if answer is None:
            return
        for topic in answer.responses:
            name = topic.name or side.topic_names.get(topic.topic_id, "")
            for each in topic.partition_responses:
                if each.error_code:
                    continue
                side.starts.setdefault((name, each.index), []).append(each.base_offset)
                if self.who is not None and self.sequence != "repeated":
                    identity = side.identity(self.who)
                    key = (identity, name, each.index)
                    base = self._base(side, identity, name, each.index)
                    side.bases[key] = base
                    side.sequences[key] = base + self.count


@dataclass(frozen=True)
class WriteMarkers(Step):
    """WriteTxnMarkers for one producer."""

    who: Who
    partitions: Partitions
    commit: bool
    coordinator_epoch: int = 0
    level: int = 0

    def request(self, side: Side) -> Any:
        identity = side.identity(self.who)
        topics = [
            WriteTxnMarkersRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(self.partitions).items()
        ]
        marker = WriteTxnMarkersRequestMarker(
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            transaction_result=self.commit,
            topics=topics,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.level,
        )
        return WriteTxnMarkersRequest(markers=[marker])


@dataclass(frozen=True)
class Fetch(Step):
    """Fetch of some partitions from one offset."""

    partitions: Partitions
    offset: int
    isolation: int
    max_bytes: int = 1 << 20
    max_wait_ms: int = 0
    epoch: int = -1

    def request(self, side: Side) -> Any:
        by_id = self.version >= _FETCH_BY_ID
        topics = [
            FetchRequestTopic(
                topic="" if by_id else topic,
                topic_id=side.topic_id(topic) if by_id else bytes(16),
                partitions=[
                    FetchRequestPartition(
                        partition=number,
                        fetch_offset=self.offset,
                        partition_max_bytes=self.max_bytes,
                        current_leader_epoch=self.epoch,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(self.partitions).items()
        ]
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation_level=self.isolation,
            topics=topics,
        )


@dataclass(frozen=True)
class ListOffsets(Step):
    """ListOffsets of some partitions at one time."""

    partitions: Partitions
    timestamp: int
    isolation: int

    def request(self, side: Side) -> Any:
        topics = [
            ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=number, timestamp=self.timestamp)
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(self.partitions).items()
        ]
        return ListOffsetsRequest(replica_id=-1, isolation_level=self.isolation, topics=topics)


@dataclass(frozen=True)
class DescribeProducers(Step):
    """DescribeProducers of some partitions."""

    partitions: Partitions

    def request(self, side: Side) -> Any:
        topics = [
            DescribeProducersRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(self.partitions).items()
        ]
        return DescribeProducersRequest(topics=topics)


@dataclass(frozen=True)
class DeleteRecords(Step):
    """DeleteRecords of one partition.

    Attributes:
        topic, partition: the partition.
        number: of the batch before which all are deleted, counted back from the last one; any
            other offset if it is negative. In the middle of a batch of an open transaction Kafka's
            last stable offset would be another one [data-plane/last-stable-offset].
    """

    topic: str
    partition: int
    number: int

    def request(self, side: Side) -> Any:
        starts = side.starts.get((self.topic, self.partition), [0])
        offset = self.number if self.number < 0 else starts[-1 - self.number % len(starts)]
        partition = DeleteRecordsRequestPartition(partition_index=self.partition, offset=offset)
        topic = DeleteRecordsRequestTopic(name=self.topic, partitions=[partition])
        return DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)


@dataclass(frozen=True)
class EpochEnd(Step):
    """OffsetForLeaderEpoch of one partition."""

    topic: str
    partition: int
    epoch: int

    def request(self, side: Side) -> Any:
        partition = OffsetForLeaderEpochRequestPartition(
            partition=self.partition, leader_epoch=self.epoch
        )
        topic = OffsetForLeaderEpochRequestTopic(topic=self.topic, partitions=[partition])
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
