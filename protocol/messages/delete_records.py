"""DeleteRecords (api key 21): move a partition's log start (KIP-107).

v1   clients throttle themselves (KIP-219)
v2   flexible (KIP-482)
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
    """Partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsRequestPartition]


@message(api_key=ApiKey.DELETE_RECORDS, flexible=2)
class DeleteRecordsRequest(Message):
    """What to delete."""

    topics: list[DeleteRecordsRequestTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsResponsePartition(Struct):
    """The log start after the deletion."""

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
    """One result a partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsResponseTopic]
