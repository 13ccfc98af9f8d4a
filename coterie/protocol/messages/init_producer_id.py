"""InitProducerId (API key 22): assign the id by which a producer's retries are recognized (KIP-98).

v1   the client itself waits for the throttle time (KIP-219)
v2   flexible encoding (KIP-482)
v3   producer_id and producer_epoch, to continue after a fenced epoch (KIP-360)
v4   the error may be PRODUCER_FENCED (KIP-588)
v5   the error may be TRANSACTION_ABORTABLE (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Int64, Message, String, message, since


@message(api_key=ApiKey.INIT_PRODUCER_ID, flexible=2)
class InitProducerIdRequest(Message):
    """The producer; `transactional_id` is null for an idempotent one without transactions."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@message(api_key=ApiKey.INIT_PRODUCER_ID, flexible=2)
class InitProducerIdResponse(Message):
    """The id and the epoch to produce with."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
