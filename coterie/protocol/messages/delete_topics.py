"""DeleteTopics (API key 20): delete topics and their records.

v0   served as [framing/older-releases] says
v1   the first one of Kafka 4: throttle_time_ms
v2   the client itself waits for the throttle time (KIP-219)
v3   the error may be TOPIC_DELETION_DISABLED
v4   flexible encoding (KIP-482)
v5   error_message, the error may be THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6   topics by name or by id (KIP-516)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    field,
    message,
    since,
    struct,
    until,
)


@struct
class DeleteTopicsRequestTopic(Struct):
    """A topic by name, or by id if the name is null."""

    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@message(api_key=ApiKey.DELETE_TOPICS, flexible=4)
class DeleteTopicsRequest(Message):
    """The topics to delete: `topic_names` to v5, `topics` from v6 on."""

    topics: list[DeleteTopicsRequestTopic] = since(6, factory=list)
    topic_names: list[String] = until(5, factory=list)
    timeout_ms: Int32


@struct
class DeleteTopicsResponseTopic(Struct):
    """The result for one topic."""

    name: String | None = field(nullable_since=6)
    topic_id: Uuid = since(6, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = since(5, default=None)


@message(api_key=ApiKey.DELETE_TOPICS, flexible=4)
class DeleteTopicsResponse(Message):
    """One result for each topic."""

    throttle_time_ms: Int32 = since(1, default=0)
    responses: list[DeleteTopicsResponseTopic]
