"""UnregisterBroker (API key 64): forget a broker that will not come back (KIP-500).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Int32,
    Message,
    String,
    message,
)


@message(api_key=ApiKey.UNREGISTER_BROKER, flexible=0)
class UnregisterBrokerRequest(Message):
    """The broker."""

    broker_id: Int32


@message(api_key=ApiKey.UNREGISTER_BROKER, flexible=0)
class UnregisterBrokerResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
