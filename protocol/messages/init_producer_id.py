"""InitProducerId (api key 22): an id that tells a producer's retries from new batches (KIP-98).

v1   clients throttle themselves (KIP-219)
v2   flexible (KIP-482)
v3   producer_id and producer_epoch, to go on after a fenced epoch (KIP-360)
v4   may answer PRODUCER_FENCED (KIP-588)
v5   may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Int64, Message, String, message, since


@message(api_key=ApiKey.INIT_PRODUCER_ID, flexible=2)
class InitProducerIdRequest(Message):
    """An idempotent producer has no transactional id."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@message(api_key=ApiKey.INIT_PRODUCER_ID, flexible=2)
class InitProducerIdResponse(Message):
    """The id to use from now on."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
