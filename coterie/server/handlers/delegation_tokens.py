"""Create-, Renew-, Expire- and DescribeDelegationToken (KIP-48) [security/delegation-tokens].

Times are those of the machine's clock [security/times-of-credentials].

Only a user that has logged in, and not with a token, may ask.
"""

from collections.abc import Callable, Generator
from typing import Any

from coterie.coordinator.kernel.request import ANONYMOUS
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponseRenewer,
    DescribeDelegationTokenResponseToken,
)
from coterie.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from coterie.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.protocol.messages.security_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    SecurityRecord,
)
from coterie.security.delegation_tokens import (
    MOST_TOKENS,
    expiring,
    is_expired,
    is_owner_or_renewer,
    removals,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.services import Services

_USER = "User"
# The time in an error: of a client that may not ask, and of a token.
_UNKNOWN_MS = -1
_NONE_MS = 0


def _refusal(broker: Services, connection: Exchange) -> ErrorCode:
    """Return NONE, or why this client may ask for nothing about tokens."""
    client = connection.client
    if client.principal == ANONYMOUS or client.by_token:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if not broker.tokens.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return ErrorCode.NONE


def _store(
    broker: Services,
    connection: Exchange,
    record: SecurityRecord,
    answer: Callable[[ErrorCode], Any],
) -> None:
    """Store a record without the tokens that have expired, and answer when that is durable."""
    response = DelayedResponse(connection)
    connection.delay(response)

    def stored(failure: Exception | None) -> None:
        error = ErrorCode.NONE if failure is None else ErrorCode.KAFKA_STORAGE_ERROR
        response.send(answer(error))

    expired = removals(broker.tokens, broker.environment.wall_ms())
    broker.security_log.append([*expired, record], stored)


def _create(
    broker: Services, request: CreateDelegationTokenRequest, connection: Exchange
) -> CreateDelegationTokenResponse | None:
    requester = connection.client.principal.partition(":")
    owner = requester
    # As in Kafka an owner counts if it has a name.
    if request.owner_principal_name:
        kind = request.owner_principal_type
        owner = (_USER if kind is None else kind, ":", request.owner_principal_name)

    def answer(
        error: ErrorCode, record: DelegationTokenRecord | None = None
    ) -> CreateDelegationTokenResponse:
        made = record if error is ErrorCode.NONE else None
        return CreateDelegationTokenResponse(
            error_code=error,
            principal_type=owner[0],
            principal_name=owner[2],
            token_requester_principal_type=requester[0],
            token_requester_principal_name=requester[2],
            issue_timestamp_ms=_UNKNOWN_MS if made is None else made.issue_timestamp,
            expiry_timestamp_ms=_UNKNOWN_MS if made is None else made.expiration_timestamp,
            max_timestamp_ms=_UNKNOWN_MS if made is None else made.max_timestamp,
            token_id="" if made is None else made.token_id,
            hmac=b"" if made is None else broker.tokens.hmac(made.token_id),
        )

    error = _refusal(broker, connection)
    if error is not ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and any(
        each.principal_type != _USER for each in request.renewers
    ):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is ErrorCode.NONE and len(broker.tokens) >= MOST_TOKENS:
        error = ErrorCode.POLICY_VIOLATION
    if error is not ErrorCode.NONE:
        return answer(error, None)
    now_ms = broker.environment.wall_ms()
    longest_ms = broker.config.get_int("delegation.token.max.lifetime.ms")
    asked_ms = request.max_lifetime_ms
    max_ms = now_ms + (min(asked_ms, longest_ms) if asked_ms > 0 else longest_ms)
    expires_ms = now_ms + broker.config.get_int("delegation.token.expiry.time.ms")
    record = DelegationTokenRecord(
        owner="".join(owner),
        requester="".join(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(expires_ms, max_ms),
        token_id=broker.environment.new_base64_id(),
    )
    _store(broker, connection, record, lambda failed: answer(failed, record))
    return None


def _checked(
    broker: Services, connection: Exchange, hmac: bytes
) -> tuple[ErrorCode, DelegationTokenRecord | None]:
    """Return the token that a client may renew or expire."""
    error = _refusal(broker, connection)
    token = broker.tokens.find(hmac) if error is ErrorCode.NONE else None
    if error is ErrorCode.NONE and token is None:
        error = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return error, token


def _renew(
    broker: Services, request: RenewDelegationTokenRequest, connection: Exchange
) -> RenewDelegationTokenResponse | None:
    def answer(error: ErrorCode, expires_ms: int = _NONE_MS) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)

    error, token = _checked(broker, connection, request.hmac)
    if token is None:
        is_unknown = error is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        return answer(error, _NONE_MS if is_unknown else _UNKNOWN_MS)
    now_ms = broker.environment.wall_ms()
    if is_expired(token, now_ms):
        return answer(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not is_owner_or_renewer(token, connection.client.principal):
        return answer(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    longest_ms = broker.config.get_int("delegation.token.expiry.time.ms")
    period_ms = request.renew_period_ms
    period_ms = longest_ms if period_ms < 0 else min(period_ms, longest_ms)
    renewed = expiring(token, now_ms + period_ms)
    expires_ms = renewed.expiration_timestamp
    _store(broker, connection, renewed, lambda failed: answer(failed, expires_ms))
    return None


def _expire(
    broker: Services, request: ExpireDelegationTokenRequest, connection: Exchange
) -> ExpireDelegationTokenResponse | None:
    def answer(error: ErrorCode, expires_ms: int = _NONE_MS) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)

    error, token = _checked(broker, connection, request.hmac)
    if token is None:
        is_unknown = error is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        return answer(error, _NONE_MS if is_unknown else _UNKNOWN_MS)
    if not is_owner_or_renewer(token, connection.client.principal):
        return answer(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    now_ms, period_ms = broker.environment.wall_ms(), request.expiry_time_period_ms
    if period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token.token_id)
        _store(broker, connection, removal, lambda failed: answer(failed, now_ms))
        return None
    if is_expired(token, now_ms):
        return answer(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    changed = expiring(token, now_ms + period_ms)
    expires_ms = changed.expiration_timestamp
    _store(broker, connection, changed, lambda failed: answer(failed, expires_ms))
    return None


def _describe(
    broker: Services, request: DescribeDelegationTokenRequest, connection: Exchange
) -> DescribeDelegationTokenResponse | None:
    error = _refusal(broker, connection)
    if error is not ErrorCode.NONE:
        return DescribeDelegationTokenResponse(error_code=error, tokens=[])
    return answer_in_slices(broker, connection, _described(broker, request))


def _described(
    broker: Services, request: DescribeDelegationTokenRequest
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    found = [
        token
        for token in broker.tokens
        if owners is None or any(is_owner_or_renewer(token, each) for each in owners)
    ]
    tokens = yield from made_in_steps(lambda each: _shown(broker, each), found)
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=tokens)


def _shown(broker: Services, token: DelegationTokenRecord) -> DescribeDelegationTokenResponseToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribeDelegationTokenResponseToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=broker.tokens.hmac(token.token_id),
        renewers=[
            DescribeDelegationTokenResponseRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _create,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe,
}
