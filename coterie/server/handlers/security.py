"""Requests about logins and delegation tokens (KIP-48): all are refused.

The broker has a plaintext listener [security/no-login], [security/delegation-tokens].
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
_USER = "User"
_ANONYMOUS = "ANONYMOUS"


def _refusing(error: ErrorCode, text: str | None = None) -> Handler:
    def handle(broker: Services, request: Any, connection: Exchange) -> Any:
        refused = refused_in_steps(request, error, connection.version, error_message=text)
        return answer_in_slices(broker, connection, refused)

    return handle


def _create_token(broker: Services, request: Any, connection: Exchange) -> Any:
    # As in Kafka an owner counts if it has a name.
    owner = request.owner_principal_name
    refused = refused_in_steps(
        request,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        connection.version,
        principal_type=(request.owner_principal_type if owner else None) or _USER,
        principal_name=owner or _ANONYMOUS,
        token_requester_principal_type=_USER,
        token_requester_principal_name=_ANONYMOUS,
    )
    return answer_in_slices(broker, connection, refused)


_refuse_login = _refusing(ErrorCode.ILLEGAL_SASL_STATE, _LOGGED_IN)
_refuse_token = _refusing(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.SASL_HANDSHAKE: _refuse_login,
    ApiKey.SASL_AUTHENTICATE: _refuse_login,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _refuse_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _refuse_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _refuse_token,
}
