"""DescribeLogDirs (API key 35): the data directories of a broker, and the sizes of logs (KIP-113).

v1   throttle_time_ms counts from here on
v2   flexible encoding
v3   error_code of the whole response
v4   total_bytes, usable_bytes (KIP-827)
v5   is_cordoned (KIP-1066)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
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
class DescribeLogDirsRequestTopic(Struct):
    """Partitions of a topic."""

    topic: String
    partitions: list[Int32]


@message(api_key=ApiKey.DESCRIBE_LOG_DIRS, flexible=2)
class DescribeLogDirsRequest(Message):
    """The partitions to describe; null for all of them."""

    topics: list[DescribeLogDirsRequestTopic] | None


@struct
class DescribeLogDirsResponsePartition(Struct):
    """The size of a log."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Boolean


@struct
class DescribeLogDirsResponseTopic(Struct):
    """The logs of a topic."""

    name: String
    partitions: list[DescribeLogDirsResponsePartition]


@struct
class DescribeLogDirsResponseResult(Struct):
    """A data directory; its sizes are -1 if they are not known."""

    error_code: Int16
    log_dir: String
    topics: list[DescribeLogDirsResponseTopic]
    total_bytes: Int64 = since(4, default=-1)
    usable_bytes: Int64 = since(4, default=-1)
    is_cordoned: Boolean = since(5, default=False)


@message(api_key=ApiKey.DESCRIBE_LOG_DIRS, flexible=2)
class DescribeLogDirsResponse(Message):
    """The data directories."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0)
    results: list[DescribeLogDirsResponseResult]
