"""DescribeTransactions (API key 65): the states of transactional ids (KIP-664)."""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Int64, Message, String, Struct, message, struct


@message(api_key=ApiKey.DESCRIBE_TRANSACTIONS, flexible=0)
class DescribeTransactionsRequest(Message):
    """The ids."""

    transactional_ids: list[String]


@struct
class DescribeTransactionsResponseTopic(Struct):
    """The partitions of one topic that take part in the transaction."""

    topic: String
    partitions: list[Int32]


@struct
class DescribeTransactionsResponseTransaction(Struct):
    """The state of one id; the start is -1 if no transaction has begun."""

    error_code: Int16
    transactional_id: String
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[DescribeTransactionsResponseTopic]


@message(api_key=ApiKey.DESCRIBE_TRANSACTIONS, flexible=0)
class DescribeTransactionsResponse(Message):
    """The states."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribeTransactionsResponseTransaction]
