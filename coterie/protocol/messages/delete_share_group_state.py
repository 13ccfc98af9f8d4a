"""DeleteShareGroupState (API key 86): forget the state of share partitions (KIP-932).

The group coordinator sends it to the share coordinator.
"""

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
class DeleteStatePartition(Struct):
    """A share partition."""

    partition: Int32


@struct
class DeleteStateTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[DeleteStatePartition]


@message(api_key=ApiKey.DELETE_SHARE_GROUP_STATE, flexible=0)
class DeleteShareGroupStateRequest(Message):
    """The share partitions to forget."""

    group_id: String
    topics: list[DeleteStateTopic]


@struct
class DeleteStatePartitionResult(Struct):
    """The result for a share partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = None


@struct
class DeleteStateTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[DeleteStatePartitionResult]


@message(api_key=ApiKey.DELETE_SHARE_GROUP_STATE, flexible=0)
class DeleteShareGroupStateResponse(Message):
    """One result for each share partition."""

    results: list[DeleteStateTopicResult]
