"""EndTxn (API key 26): commit or abort a transaction (KIP-98).

v1   the client itself waits for the throttle time (KIP-219)
v2   the error may be PRODUCER_FENCED (KIP-588)
v3   flexible encoding (KIP-482)
v4   the error may be TRANSACTION_ABORTABLE (KIP-890)
v5   the epoch of the producer is raised; the response has the new one (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Boolean, Int16, Int32, Int64, Message, String, message, since


@message(api_key=ApiKey.END_TXN, flexible=3)
class EndTxnRequest(Message):
    """The transaction, and whether to commit it."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Boolean


@message(api_key=ApiKey.END_TXN, flexible=3)
class EndTxnResponse(Message):
    """The result, and with what the producer goes on."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = since(5, default=-1)
    producer_epoch: Int16 = since(5, default=-1)
