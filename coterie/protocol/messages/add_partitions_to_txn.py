"""AddPartitionsToTxn (API key 24): add partitions to a transaction, or verify them (KIP-98).

v1   the client itself waits for the throttle time (KIP-219)
v2   the error may be PRODUCER_FENCED (KIP-588)
v3   flexible encoding (KIP-482)
v4   several transactions, which may only be verified; brokers send it (KIP-890)
v5   the error may be TRANSACTION_ABORTABLE (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)


@struct
class AddPartitionsToTxnRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnRequestTransaction(Struct):
    """One transaction; with `verify_only` nothing is added."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Boolean = False
    topics: list[AddPartitionsToTxnRequestTopic]


@message(api_key=ApiKey.ADD_PARTITIONS_TO_TXN, flexible=3)
class AddPartitionsToTxnRequest(Message):
    """One transaction up to version 3, several from version 4."""

    transactions: list[AddPartitionsToTxnRequestTransaction] = since(4, factory=list)
    transactional_id: String = until(3, default="")
    producer_id: Int64 = until(3, default=0)
    producer_epoch: Int16 = until(3, default=0)
    topics: list[AddPartitionsToTxnRequestTopic] = until(3, factory=list)


@struct
class AddPartitionsToTxnResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    results_by_partition: list[AddPartitionsToTxnResponsePartition]


@struct
class AddPartitionsToTxnResponseTransaction(Struct):
    """The results of one transaction."""

    transactional_id: String
    topic_results: list[AddPartitionsToTxnResponseTopic]


@message(api_key=ApiKey.ADD_PARTITIONS_TO_TXN, flexible=3)
class AddPartitionsToTxnResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0)
    results_by_transaction: list[AddPartitionsToTxnResponseTransaction] = since(4, factory=list)
    results_by_topic: list[AddPartitionsToTxnResponseTopic] = until(3, factory=list)
