"""AlterShareGroupOffsets (API key 91): set the start offsets of an empty share group (KIP-932)."""

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
    struct,
)


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    """One partition."""

    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: String
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@message(api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, flexible=0)
class AlterShareGroupOffsetsRequest(Message):
    """The new start offsets."""

    group_id: String
    topics: list[AlterShareGroupOffsetsRequestTopic]


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    """One partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name: String
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, flexible=0)
class AlterShareGroupOffsetsResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
