"""DescribeProducers (API key 61): the producers that partitions remember (KIP-664).

v0   flexible encoding
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
    struct,
)


@struct
class DescribeProducersRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@message(api_key=ApiKey.DESCRIBE_PRODUCERS, flexible=0)
class DescribeProducersRequest(Message):
    """The partitions whose producers are listed."""

    topics: list[DescribeProducersRequestTopic]


@struct
class DescribeProducersResponseProducer(Struct):
    """A producer, and its open transaction if it has one."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class DescribeProducersResponsePartition(Struct):
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    active_producers: list[DescribeProducersResponseProducer]


@struct
class DescribeProducersResponseTopic(Struct):
    """The producers of one topic."""

    name: String
    partitions: list[DescribeProducersResponsePartition]


@message(api_key=ApiKey.DESCRIBE_PRODUCERS, flexible=0)
class DescribeProducersResponse(Message):
    """The producers of all partitions."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeProducersResponseTopic]
