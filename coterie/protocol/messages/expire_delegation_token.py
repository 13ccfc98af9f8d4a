"""ExpireDelegationToken (API key 40): let a token expire earlier (KIP-48).

v2   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    message,
)


@message(api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, flexible=2)
class ExpireDelegationTokenRequest(Message):
    """The token, and when it shall expire."""

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, flexible=2)
class ExpireDelegationTokenResponse(Message):
    """When the token expires."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
