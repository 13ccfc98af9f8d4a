"""ListOffsets (API key 2): find offsets by timestamp; negative timestamps have special meanings.

v0   the offsets of segments that were written before a time
v1   the first one of Kafka 4: one offset for each partition, with its timestamp (KIP-79)
v2   isolation_level, throttle_time_ms (KIP-98)
v3   the client itself waits for the throttle time (KIP-219)
v4   current_leader_epoch and leader_epoch (KIP-320)
v5   the error may be OFFSET_NOT_AVAILABLE (KIP-207)
v6   flexible encoding (KIP-482)
v7   MAX_TIMESTAMP (KIP-734)
v8   EARLIEST_LOCAL_TIMESTAMP (KIP-405)
v9   LATEST_TIERED_TIMESTAMP (KIP-1005)
v10  timeout_ms (KIP-1075)
v11  EARLIEST_PENDING_UPLOAD_TIMESTAMP (KIP-1023)

v0 is served as [framing/older-releases] says.
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
    until,
)

# Special timestamps.
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


@struct
class ListOffsetsRequestPartition(Struct):
    """The timestamp to look up: epoch milliseconds or one of the constants above.

    max_num_offsets: how many offsets a response of v0 may have.
    """

    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1)
    timestamp: Int64
    max_num_offsets: Int32 = until(0, default=1)


@struct
class ListOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[ListOffsetsRequestPartition]


@message(api_key=ApiKey.LIST_OFFSETS, flexible=6)
class ListOffsetsRequest(Message):
    """The timestamps to look up; `replica_id` is -1 for consumers."""

    replica_id: Int32
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsRequestTopic]
    timeout_ms: Int32 = since(10, default=0)


@struct
class ListOffsetsResponsePartition(Struct):
    """The offset and its timestamp; both are -1 if no record matches.

    old_style_offsets: the offsets of v0, the greatest first.
    """

    partition_index: Int32
    error_code: Int16
    old_style_offsets: list[Int64] = until(0, factory=list)
    timestamp: Int64 = since(1, default=-1)
    offset: Int64 = since(1, default=-1)
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[ListOffsetsResponsePartition]


@message(api_key=ApiKey.LIST_OFFSETS, flexible=6)
class ListOffsetsResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[ListOffsetsResponseTopic]
