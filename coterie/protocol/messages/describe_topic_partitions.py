"""DescribeTopicPartitions (API key 75): the partitions of many topics, page by page (KIP-966).

v0   the only version, flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    message,
    struct,
)


@struct
class DescribeTopicPartitionsRequestTopic(Struct):
    """A topic by name."""

    name: String


@struct
class DescribeTopicPartitionsRequestCursor(Struct):
    """The first partition of the requested page."""

    topic_name: String
    partition_index: Int32


@message(api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, flexible=0)
class DescribeTopicPartitionsRequest(Message):
    """The topics (all if empty), and the largest number of partitions in the response."""

    topics: list[DescribeTopicPartitionsRequestTopic]
    response_partition_limit: Int32 = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition; replicas are node ids."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or the error for it."""

    error_code: Int16
    name: String | None
    topic_id: Uuid = ZERO_UUID
    is_internal: Boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@struct
class DescribeTopicPartitionsResponseCursor(Struct):
    """The first partition of the next page."""

    topic_name: String
    partition_index: Int32


@message(api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, flexible=0)
class DescribeTopicPartitionsResponse(Message):
    """One page; `next_cursor` is null on the last page."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
