"""OffsetForLeaderEpoch (API key 23): the end offset of a leader epoch (KIP-320).

A consumer compares it with its position to detect that the log was truncated.

v0   served as [framing/older-releases] says, like v1
v1   leader_epoch (KIP-279)
v2   the first one of Kafka 4: current_leader_epoch, throttle_time_ms
v3   replica_id
v4   flexible encoding (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class OffsetForLeaderEpochRequestPartition(Struct):
    """The partition, its leader epoch as the client knows it, and the epoch to look up."""

    partition: Int32
    current_leader_epoch: Int32 = since(2, default=-1)
    leader_epoch: Int32


@struct
class OffsetForLeaderEpochRequestTopic(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: list[OffsetForLeaderEpochRequestPartition]


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """The epochs to look up; `replica_id` is -1 for a consumer, -2 for a debugging one."""

    replica_id: Int32 = since(3, default=-2)
    topics: list[OffsetForLeaderEpochRequestTopic]


@struct
class OffsetForLeaderEpochResponsePartition(Struct):
    """The largest epoch that is not above the requested one, and its end offset."""

    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = since(1, default=-1)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderEpochResponseTopic(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: list[OffsetForLeaderEpochResponsePartition]


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[OffsetForLeaderEpochResponseTopic]
