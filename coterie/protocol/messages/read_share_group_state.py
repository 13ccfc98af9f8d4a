"""ReadShareGroupState (API key 84): the state of share partitions (KIP-932).

The leaders of partitions send it to the share coordinator.
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
    struct,
)


@struct
class ReadStatePartition(Struct):
    """A share partition."""

    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ReadStatePartition]


@message(api_key=ApiKey.READ_SHARE_GROUP_STATE, flexible=0)
class ReadShareGroupStateRequest(Message):
    """The share partitions, with the leader epochs of their leaders."""

    group_id: String
    topics: list[ReadStateTopic]


@struct
class ReadStatePartitionResult(Struct):
    """The result for a share partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[ShareStateBatch]


@struct
class ReadStateTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ReadStatePartitionResult]


@message(api_key=ApiKey.READ_SHARE_GROUP_STATE, flexible=0)
class ReadShareGroupStateResponse(Message):
    """The start offset and the delivery states of each share partition."""

    results: list[ReadStateTopicResult]
