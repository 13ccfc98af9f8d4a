"""InitializeShareGroupState (API key 83): begin the state of share partitions (KIP-932).

The group coordinator sends it to the share coordinator.
"""

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
class InitializeStatePartition(Struct):
    """A share partition."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializeStateTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[InitializeStatePartition]


@message(api_key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, flexible=0)
class InitializeShareGroupStateRequest(Message):
    """The start offset of each share partition; -1 if it is not known yet."""

    group_id: String
    topics: list[InitializeStateTopic]


@struct
class InitializeStatePartitionResult(Struct):
    """The result for a share partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = None


@struct
class InitializeStateTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[InitializeStatePartitionResult]


@message(api_key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, flexible=0)
class InitializeShareGroupStateResponse(Message):
    """One result for each share partition."""

    results: list[InitializeStateTopicResult]
