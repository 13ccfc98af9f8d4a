"""SaslHandshake and SaslAuthenticate: there is nothing to log in to on a plaintext listener.

[security/no-login]
"""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refusal
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

_LOGGED_IN = "SaslAuthenticate request received after successful authentication"


def _refuse(_broker: Services, request: Any, connection: Exchange) -> Any:
    error = ErrorCode.ILLEGAL_SASL_STATE
    return refusal(request, error, connection.version, error_message=_LOGGED_IN)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.SASL_HANDSHAKE: _refuse,
    ApiKey.SASL_AUTHENTICATE: _refuse,
}
