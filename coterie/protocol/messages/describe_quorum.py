"""DescribeQuorum (API key 55): the voters of the cluster's metadata (KIP-595).

v0   flexible encoding
v1   last_fetch_timestamp, last_caught_up_timestamp (KIP-836)
v2   directory ids, error messages, nodes (KIP-853)
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
    Uint16,
    Uuid,
    message,
    since,
    struct,
)


@struct
class DescribeQuorumRequestPartition(Struct):
    """A partition of the metadata's log."""

    partition_index: Int32


@struct
class DescribeQuorumRequestTopic(Struct):
    """The topic of the metadata."""

    topic_name: String
    partitions: list[DescribeQuorumRequestPartition]


@message(api_key=ApiKey.DESCRIBE_QUORUM, flexible=0)
class DescribeQuorumRequest(Message):
    """The partitions to describe."""

    topics: list[DescribeQuorumRequestTopic]


@struct
class DescribeQuorumResponseReplica(Struct):
    """A voter or an observer."""

    replica_id: Int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = since(1, default=-1)
    last_caught_up_timestamp: Int64 = since(1, default=-1)


@struct
class DescribeQuorumResponsePartition(Struct):
    """The quorum of a partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = since(2, default=None)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[DescribeQuorumResponseReplica]
    observers: list[DescribeQuorumResponseReplica]


@struct
class DescribeQuorumResponseTopic(Struct):
    """The quorums of a topic."""

    topic_name: String
    partitions: list[DescribeQuorumResponsePartition]


@struct
class DescribeQuorumResponseListener(Struct):
    """The address of a listener."""

    name: String
    host: String
    port: Uint16


@struct
class DescribeQuorumResponseNode(Struct):
    """The listeners of a voter."""

    node_id: Int32
    listeners: list[DescribeQuorumResponseListener]


@message(api_key=ApiKey.DESCRIBE_QUORUM, flexible=0)
class DescribeQuorumResponse(Message):
    """The quorum of each partition."""

    error_code: Int16
    error_message: String | None = since(2, default=None)
    topics: list[DescribeQuorumResponseTopic]
    nodes: list[DescribeQuorumResponseNode] = since(2, factory=list)
