"""SaslHandshake and SaslAuthenticate: there is nothing to log in to on a plaintext listener.

[security/no-login]
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services


def _handshake(
    _broker: Services, _request: SaslHandshakeRequest, _connection: Exchange
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def _authenticate(
    _broker: Services, _request: SaslAuthenticateRequest, _connection: Exchange
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.SASL_HANDSHAKE: _handshake,
    ApiKey.SASL_AUTHENTICATE: _authenticate,
}
