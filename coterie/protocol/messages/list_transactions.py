"""ListTransactions (API key 66): the transactional ids that a broker coordinates (KIP-664).

v1   duration_filter (KIP-994)
v2   transactional_id_pattern (KIP-1152)
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


@message(api_key=ApiKey.LIST_TRANSACTIONS, flexible=0)
class ListTransactionsRequest(Message):
    """The filters, all of which an id has to pass; an empty one passes every id."""

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


@struct
class ListTransactionsResponseTransaction(Struct):
    """One transactional id."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api_key=ApiKey.LIST_TRANSACTIONS, flexible=0)
class ListTransactionsResponse(Message):
    """The ids that pass, and the names of states that do not exist."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[ListTransactionsResponseTransaction]
