"""RenewDelegationToken (API key 39): postpone the expiry of a token (KIP-48).

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


@message(api_key=ApiKey.RENEW_DELEGATION_TOKEN, flexible=2)
class RenewDelegationTokenRequest(Message):
    """The token, and for how long to renew it."""

    hmac: Bytes
    renew_period_ms: Int64


@message(api_key=ApiKey.RENEW_DELEGATION_TOKEN, flexible=2)
class RenewDelegationTokenResponse(Message):
    """When the token expires."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
