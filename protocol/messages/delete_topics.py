"""DeleteTopics (api key 20): remove topics and their records.

v1   the first one served: throttle time
v2   clients throttle themselves (KIP-219)
v3   may answer TOPIC_DELETION_DISABLED
v4   flexible (KIP-482)
v5   error_message, may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)
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
    """A topic by name, or with a null name by id (v6 and later)."""

    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@message(api_key=ApiKey.DELETE_TOPICS, flexible=4)
class DeleteTopicsRequest(Message):
    """The names of v1-5, or the topics of v6 and later."""

    topics: list[DeleteTopicsRequestTopic] = since(6, factory=list)
    topic_names: list[String] = until(5, factory=list)
    timeout_ms: Int32


@struct
class DeleteTopicsResponseTopic(Struct):
    """What became of one topic."""

    name: String | None = field(nullable_since=6)
    topic_id: Uuid = since(6, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = since(5, default=None)


@message(api_key=ApiKey.DELETE_TOPICS, flexible=4)
class DeleteTopicsResponse(Message):
    """One result a topic."""

    throttle_time_ms: Int32 = 0
    responses: list[DeleteTopicsResponseTopic]
