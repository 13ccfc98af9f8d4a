"""DeleteRecords (API key 21): move the log start of partitions forward (KIP-107).

v1   the client itself waits for the throttle time (KIP-219)
v2   flexible encoding (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Int64, Message, String, Struct, message, struct


@struct
class DeleteRecordsRequestPartition(Struct):
    """The first offset to keep; -1 for the high watermark."""

    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsRequestPartition]


@message(api_key=ApiKey.DELETE_RECORDS, flexible=2)
class DeleteRecordsRequest(Message):
    """The new log start of each partition."""

    topics: list[DeleteRecordsRequestTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsResponsePartition(Struct):
    """The result for one partition; `low_watermark` is the new log start."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


@struct
class DeleteRecordsResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsResponsePartition]


@message(api_key=ApiKey.DELETE_RECORDS, flexible=2)
class DeleteRecordsResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsResponseTopic]
