"""DeleteShareGroupOffsets (API key 92): forget offsets of an empty share group (KIP-932)."""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
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
class DeleteShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: String


@message(api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, flexible=0)
class DeleteShareGroupOffsetsRequest(Message):
    """The topics to forget."""

    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, flexible=0)
class DeleteShareGroupOffsetsResponse(Message):
    """One result for each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
