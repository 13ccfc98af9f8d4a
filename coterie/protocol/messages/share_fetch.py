"""ShareFetch (API key 78): acquire records, and acknowledge earlier ones (KIP-932).

v2   share_acquire_mode (KIP-1206), is_renew_ack (KIP-1222)

Version 0 existed in Kafka 4.0 as a preview and is not declared.
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.share_session_parts import (
    AcknowledgementBatch,
    ShareLeader,
    ShareNodeEndpoint,
)
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)


@struct
class ShareFetchPartition(Struct):
    """A partition and its acknowledgements."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class ShareFetchTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ShareFetchPartition]


@struct
class ShareForgottenTopic(Struct):
    """Partitions that leave the share session."""

    topic_id: Uuid
    partitions: list[Int32]


@message(api_key=ApiKey.SHARE_FETCH, flexible=0)
class ShareFetchRequest(Message):
    """The partitions that join the share session, acknowledgements, and limits.

    `share_session_epoch` is 0 to open a session and -1 to close it. `share_acquire_mode` is 0 for
    whole batches and 1 for exactly `max_records`.
    """

    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = since(2, default=0)
    is_renew_ack: Boolean = since(2, default=False)
    topics: list[ShareFetchTopic]
    forgotten_topics_data: list[ShareForgottenTopic]


@struct
class AcquiredRecords(Struct):
    """Offsets that the member acquired, both ends included, and the number of this delivery."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class ShareFetchPartitionResponse(Struct):
    """The records of a partition, and the result of its acknowledgements."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = None
    current_leader: ShareLeader
    records: Records
    acquired_records: list[AcquiredRecords]


@struct
class ShareFetchTopicResponse(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ShareFetchPartitionResponse]


@message(api_key=ApiKey.SHARE_FETCH, flexible=0)
class ShareFetchResponse(Message):
    """Record batches, and which of their offsets the member has acquired."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchTopicResponse]
    node_endpoints: list[ShareNodeEndpoint]
