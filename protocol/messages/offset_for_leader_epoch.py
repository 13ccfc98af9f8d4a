"""OffsetForLeaderEpoch (api key 23): where an epoch ends, to notice a truncated log (KIP-320).

v2   the first one served: current_leader_epoch, throttle time
v3   replica_id
v4   flexible (KIP-482)
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
    """The epoch in question."""

    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@struct
class OffsetForLeaderEpochRequestTopic(Struct):
    """Partitions of one topic."""

    topic: String
    partitions: list[OffsetForLeaderEpochRequestPartition]


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """What is asked; consumers are replica -1."""

    replica_id: Int32 = since(3, default=-2)  # -2: a debugging consumer
    topics: list[OffsetForLeaderEpochRequestTopic]


@struct
class OffsetForLeaderEpochResponsePartition(Struct):
    """The largest epoch not above the one in question, and where it ends."""

    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderEpochResponseTopic(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: list[OffsetForLeaderEpochResponsePartition]


@message(api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """One answer a partition."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderEpochResponseTopic]
