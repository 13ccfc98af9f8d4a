"""SaslAuthenticate (API key 36): one step of an authentication (KIP-152).

v1   session_lifetime_ms (KIP-368)
v2   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Bytes,
    Int16,
    Int64,
    Message,
    String,
    message,
    since,
)


@message(api_key=ApiKey.SASL_AUTHENTICATE, flexible=2)
class SaslAuthenticateRequest(Message):
    """The token of the client."""

    auth_bytes: Bytes


@message(api_key=ApiKey.SASL_AUTHENTICATE, flexible=2)
class SaslAuthenticateResponse(Message):
    """The token of the server."""

    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = since(1, default=0)
