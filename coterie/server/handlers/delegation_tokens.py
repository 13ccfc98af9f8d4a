"""Delegation tokens: a client that has not logged in may not use them (KIP-48).

[security/delegation-tokens]
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from coterie.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from coterie.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

_REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_USER = "User"
_ANONYMOUS = "ANONYMOUS"
_NO_TIME = -1


def _create(
    _broker: Services, request: CreateDelegationTokenRequest, _connection: Exchange
) -> CreateDelegationTokenResponse:
    # As in Kafka an owner counts if it has a name.
    has_owner = bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=_REFUSED,
        principal_type=(request.owner_principal_type or _USER) if has_owner else _USER,
        principal_name=(request.owner_principal_name or _ANONYMOUS) if has_owner else _ANONYMOUS,
        token_requester_principal_type=_USER,
        token_requester_principal_name=_ANONYMOUS,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
        token_id="",
        hmac=b"",
    )


def _renew(
    _broker: Services, _request: RenewDelegationTokenRequest, _connection: Exchange
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=_REFUSED, expiry_timestamp_ms=_NO_TIME)


def _expire(
    _broker: Services, _request: ExpireDelegationTokenRequest, _connection: Exchange
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=_REFUSED, expiry_timestamp_ms=_NO_TIME)


def _describe(
    _broker: Services, _request: DescribeDelegationTokenRequest, _connection: Exchange
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=_REFUSED, tokens=[])


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _create,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe,
}
