"""OffsetCommit (API key 8): store the offsets that a group has read up to.

v0   offsets that Kafka kept in ZooKeeper
v1   generation, member_id and commit_timestamp
v2   the first one of Kafka 4: retention_time_ms
v3   throttle_time_ms (KIP-124)
v4   the client itself waits for the throttle time (KIP-219)
v5   no retention_time_ms any more (KIP-211)
v6   committed_leader_epoch (KIP-320)
v7   group_instance_id (KIP-345)
v8   flexible encoding (KIP-482)
v9   the generation may be a member epoch (KIP-848)
v10  topic_id in place of name (KIP-848)

v0 and v1 are served as [framing/older-releases] says.
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    until,
)


@struct
class OffsetCommitRequestPartition(Struct):
    """The next offset to read of one partition, and metadata of the client's choice.

    commit_timestamp: when the client read up to there; -1 for now.
    """

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(6, default=-1)
    commit_timestamp: Int64 = since(1, last=1, default=-1)
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic(Struct):
    """A topic: by name to v9, by id from v10 on."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition]


@message(api_key=ApiKey.OFFSET_COMMIT, flexible=8)
class OffsetCommitRequest(Message):
    """The offsets to commit.

    A client that only stores offsets, and is no member, sends generation -1 and an empty member id.
    """

    group_id: String
    generation_id_or_member_epoch: Int32 = since(1, default=-1)
    member_id: String = since(1, default="")
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = since(2, last=4, default=-1)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetCommitResponseTopic(Struct):
    """The partitions of one topic, which is named as in the request."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition]


@message(api_key=ApiKey.OFFSET_COMMIT, flexible=8)
class OffsetCommitResponse(Message):
    """One result for each partition; an error of the group is repeated for all of them."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: list[OffsetCommitResponseTopic]
