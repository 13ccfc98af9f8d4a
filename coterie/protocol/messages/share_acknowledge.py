"""ShareAcknowledge (API key 79): acknowledge records that were acquired (KIP-932).

v2   is_renew_ack (KIP-1222), acquisition_lock_timeout_ms

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
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)


@struct
class ShareAcknowledgePartition(Struct):
    """A partition and its acknowledgements."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class ShareAcknowledgeTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ShareAcknowledgePartition]


@message(api_key=ApiKey.SHARE_ACKNOWLEDGE, flexible=0)
class ShareAcknowledgeRequest(Message):
    """Acknowledgements within a share session; the epoch -1 closes it."""

    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Boolean = since(2, default=False)
    topics: list[ShareAcknowledgeTopic]


@struct
class ShareAcknowledgePartitionResponse(Struct):
    """The result of the acknowledgements of a partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    current_leader: ShareLeader


@struct
class ShareAcknowledgeTopicResponse(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ShareAcknowledgePartitionResponse]


@message(api_key=ApiKey.SHARE_ACKNOWLEDGE, flexible=0)
class ShareAcknowledgeResponse(Message):
    """One result for each acknowledged partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareNodeEndpoint]
