"""DescribeShareGroupOffsets (API key 90): the offsets of share groups (KIP-932).

v1   lag (KIP-1226)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
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
)


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: String
    partitions: list[Int32]


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group."""

    group_id: String
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@message(api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, flexible=0)
class DescribeShareGroupOffsetsRequest(Message):
    """The groups; without topics all their partitions."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    """One partition."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = since(1, default=-1)
    error_code: Int16
    error_message: String | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name: String
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group."""

    group_id: String
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, flexible=0)
class DescribeShareGroupOffsetsResponse(Message):
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
