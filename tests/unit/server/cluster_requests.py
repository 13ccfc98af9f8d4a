"""Requests to brokers of a cluster about the topic `t` and about groups."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.records import Record, encode_records
from coterie.server.cluster.image import CoordinatorType
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.manual import Client

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def create(client: Client, factor: int = 3, partitions: int = 1, name: str = "t") -> Any:
    topic = CreateTopicsRequestTopic(
        name=name, num_partitions=partitions, replication_factor=factor
    )
    (created,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5).topics
    return created


def produce(client: Client, *, acks: int = 1, version: int = 12) -> Any:
    records = encode_records([Record(0, 1, None, b"v", ())])
    partition = ProduceRequestPartition(index=0, records=records)
    topic = ProduceRequestTopic(name="t", partition_data=[partition])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
    return client.call(request, version)


def produced(client: Client, *, acks: int = 1) -> int:
    return int(produce(client, acks=acks).responses[0].partition_responses[0].error_code)


def fetch(client: Client, version: int, epoch: int = -1) -> Any:
    partition = FetchRequestPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1000,
        topics=[FetchRequestTopic(topic="t", partitions=[partition])],
    )  # fmt: skip
    return client.call(request, version).responses[0].partitions[0]


def latest_offset(client: Client) -> tuple[int, int]:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=[asked])]
    )
    (found,) = client.call(request, 6).topics[0].partitions
    return found.error_code, found.offset


def described(client: Client) -> list[tuple[int, int, list[int], list[int], list[int]]]:
    (topic,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9).topics
    return [
        (each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes,
         each.offline_replicas)
        for each in topic.partitions
    ]  # fmt: skip


def join(client: Client, member_id: str = "", group: str = "g", version: int = 3) -> Any:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        member_id=member_id, protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    client.send(request, version)
    client.loop.turn()
    # The delay before the first rebalance is over.
    client.loop.advance(1)
    ((_, answer),) = client.answers()
    return answer


def form(client: Client, group: str = "g") -> str:
    """Form a group of one member; return its id. The generation is 1."""
    member_id: str = join(client, group=group).member_id
    assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
    request = SyncGroupRequest(
        group_id=group, generation_id=1, member_id=member_id, assignments=assignments
    )
    assert client.call(request, 2).error_code == ErrorCode.NONE
    return member_id


def heartbeat(client: Client, member_id: str, group: str = "g", generation: int = 1) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    return int(client.call(request, 2).error_code)


def committing(
    offset: int, group: str = "g", topic: str = "t", member_id: str = ""
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=1 if member_id else -1,
        member_id=member_id,
        topics=topics,
    )


def commit(
    client: Client, offset: int, group: str = "g", topic: str = "t", member_id: str = ""
) -> list[int]:
    answer = client.call(committing(offset, group, topic, member_id), 7)
    return [each.error_code for found in answer.topics for each in found.partitions]


def committed(client: Client, *groups: str) -> list[tuple[int, int]]:
    """Return the error and the offset of each group."""
    asked = [
        OffsetFetchRequestGroup(
            group_id=each,
            topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        )
        for each in groups
    ]
    answer = client.call(OffsetFetchRequest(groups=asked), 8)
    return [
        (each.error_code, each.topics[0].partitions[0].committed_offset if each.topics else -1)
        for each in answer.groups
    ]


def coordinator(cluster: ManualCluster, group: str = "g") -> int:
    found = cluster.leadership.image.coordinator(CoordinatorType.GROUP, group)
    assert found is not None
    return found


def others(cluster: ManualCluster, node_id: int) -> list[int]:
    return [each for each in cluster.cluster.brokers if each != node_id]
