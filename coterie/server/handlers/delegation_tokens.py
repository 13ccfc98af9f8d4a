"""Delegation tokens: a client that has not logged in may not use them (KIP-48).

[security/delegation-tokens]
"""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from coterie.protocol.refusals import refusal
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

_REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_USER = "User"
_ANONYMOUS = "ANONYMOUS"


def _create(_broker: Services, request: CreateDelegationTokenRequest, connection: Exchange) -> Any:
    # As in Kafka an owner counts if it has a name.
    has_owner = bool(request.owner_principal_name)
    return refusal(
        request,
        _REFUSED,
        connection.version,
        principal_type=(request.owner_principal_type or _USER) if has_owner else _USER,
        principal_name=request.owner_principal_name or _ANONYMOUS,
        token_requester_principal_type=_USER,
        token_requester_principal_name=_ANONYMOUS,
    )


def _refuse(_broker: Services, request: Any, connection: Exchange) -> Any:
    return refusal(request, _REFUSED, connection.version)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _create,
    ApiKey.RENEW_DELEGATION_TOKEN: _refuse,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _refuse,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _refuse,
}
