"""AddOffsetsToTxn (API key 25): add the offsets of a group to a transaction (KIP-98).

v1   the client itself waits for the throttle time (KIP-219)
v2   the error may be PRODUCER_FENCED (KIP-588)
v3   flexible encoding (KIP-482)
v4   the error may be TRANSACTION_ABORTABLE (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Int64, Message, String, message


@message(api_key=ApiKey.ADD_OFFSETS_TO_TXN, flexible=3)
class AddOffsetsToTxnRequest(Message):
    """The transaction and the group."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api_key=ApiKey.ADD_OFFSETS_TO_TXN, flexible=3)
class AddOffsetsToTxnResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
