"""Requests about logins on connections that have one: they are refused.

Logins come before the requests of a connection [security/before-login], [security/no-login].
"""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refused_in_steps
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

_LOGGED_IN = "SaslAuthenticate request received after successful authentication"


def _refusing(error: ErrorCode, text: str | None = None) -> Handler:
    def handle(broker: Services, request: Any, connection: Exchange) -> Any:
        refused = refused_in_steps(request, error, connection.version, error_message=text)
        return answer_in_slices(broker, connection, refused)

    return handle


_refuse_login = _refusing(ErrorCode.ILLEGAL_SASL_STATE, _LOGGED_IN)

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.SASL_HANDSHAKE: _refuse_login,
    ApiKey.SASL_AUTHENTICATE: _refuse_login,
}
