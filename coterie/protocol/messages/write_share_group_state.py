"""WriteShareGroupState (API key 85): change the state of share partitions (KIP-932).

The leaders of partitions send it to the share coordinator.

v1   delivery_complete_count (KIP-1226)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.wire import (
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)


@struct
class WriteStatePartition(Struct):
    """A share partition."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1)
    state_batches: list[ShareStateBatch]


@struct
class WriteStateTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[WriteStatePartition]


@message(api_key=ApiKey.WRITE_SHARE_GROUP_STATE, flexible=0)
class WriteShareGroupStateRequest(Message):
    """What has changed in each share partition.

    A start offset of -1 keeps the one there is; a leader or state epoch of -1 is not compared.
    """

    group_id: String
    topics: list[WriteStateTopic]


@struct
class WriteStatePartitionResult(Struct):
    """The result for a share partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = None


@struct
class WriteStateTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[WriteStatePartitionResult]


@message(api_key=ApiKey.WRITE_SHARE_GROUP_STATE, flexible=0)
class WriteShareGroupStateResponse(Message):
    """One result for each share partition."""

    results: list[WriteStateTopicResult]
