"""ListOffsets (api key 2): the offset that belongs to a time; negative times have meanings.

v1   the first one served: one offset a partition, with its timestamp (KIP-79)
v2   isolation_level, throttle time (KIP-98)
v3   clients throttle themselves (KIP-219)
v4   leader epochs (KIP-320)
v5   may answer OFFSET_NOT_AVAILABLE (KIP-207)
v6   flexible (KIP-482)
v7   time -3, of the largest timestamp (KIP-734)
v8   time -4, earliest local (KIP-405)
v9   time -5, latest tiered (KIP-1005)
v10  timeout_ms (KIP-1075)
v11  time -6, earliest pending upload (KIP-1023)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
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

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


@struct
class ListOffsetsRequestPartition(Struct):
    """The time in question, epoch milliseconds or one of the constants above."""

    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1)
    timestamp: Int64


@struct
class ListOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    name: String
    partitions: list[ListOffsetsRequestPartition]


@message(api_key=ApiKey.LIST_OFFSETS, flexible=6)
class ListOffsetsRequest(Message):
    """What is asked; consumers are replica -1."""

    replica_id: Int32
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsRequestTopic]
    timeout_ms: Int32 = since(10, default=0)


@struct
class ListOffsetsResponsePartition(Struct):
    """Offset and timestamp -1 where nothing matches."""

    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[ListOffsetsResponsePartition]


@message(api_key=ApiKey.LIST_OFFSETS, flexible=6)
class ListOffsetsResponse(Message):
    """One answer a partition."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[ListOffsetsResponseTopic]
