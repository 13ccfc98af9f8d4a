"""ReadShareGroupStateSummary (API key 87): the start offsets of share partitions (KIP-932).

The group coordinator sends it to the share coordinator.

v1   delivery_complete_count (KIP-1226)
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
    since,
    struct,
)


@struct
class ReadStateSummaryPartition(Struct):
    """A share partition."""

    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateSummaryTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ReadStateSummaryPartition]


@message(api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, flexible=0)
class ReadShareGroupStateSummaryRequest(Message):
    """The share partitions, with the leader epochs of their leaders."""

    group_id: String
    topics: list[ReadStateSummaryTopic]


@struct
class ReadStateSummaryPartitionResult(Struct):
    """The result for a share partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1)


@struct
class ReadStateSummaryTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[ReadStateSummaryPartitionResult]


@message(api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, flexible=0)
class ReadShareGroupStateSummaryResponse(Message):
    """The start offset of each share partition; -1 if there is no state."""

    results: list[ReadStateSummaryTopicResult]
