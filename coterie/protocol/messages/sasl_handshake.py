"""SaslHandshake (API key 17): choose a mechanism of authentication (KIP-43).

v1   SaslAuthenticate follows instead of bare tokens (KIP-152)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Message,
    String,
    message,
)


@message(api_key=ApiKey.SASL_HANDSHAKE, flexible=None)
class SaslHandshakeRequest(Message):
    """The mechanism."""

    mechanism: String


@message(api_key=ApiKey.SASL_HANDSHAKE, flexible=None)
class SaslHandshakeResponse(Message):
    """The mechanisms that the listener has."""

    error_code: Int16
    mechanisms: list[String]
