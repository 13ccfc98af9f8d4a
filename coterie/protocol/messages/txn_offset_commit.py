"""TxnOffsetCommit (API key 28): store the offsets of a group as a part of a transaction (KIP-98).

v0   the first version
v1   the client itself waits for the throttle time (KIP-219)
v2   committed_leader_epoch (KIP-320)
v3   flexible encoding (KIP-482); generation_id, member_id and group_instance_id (KIP-447)
v4   may be answered with TRANSACTION_ABORTABLE (KIP-890)
v5   adds the partition of the group to the transaction (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read of one partition, and metadata of the client's choice."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1)
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@message(api_key=ApiKey.TXN_OFFSET_COMMIT, flexible=3)
class TxnOffsetCommitRequest(Message):
    """The transaction, the group and its offsets.

    A producer that has no member of the group at hand sends generation -1 and an empty member id.
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: String | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@message(api_key=ApiKey.TXN_OFFSET_COMMIT, flexible=3)
class TxnOffsetCommitResponse(Message):
    """One result for each partition; an error of the transaction or group is that of all."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
