"""Delegation tokens (KIP-48): list, create, renew and expire them.

A token is named by its id. Renewing and expiring need its HMAC, which the broker gives to those who
may see the token, so it is no argument of a command. It is printed once, in base64, at the
creation: the password of a login with SCRAM and `tokenauth="true"`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError, Refused
from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
)
from coterie.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    DescribeDelegationTokenResponse,
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

# Kafka's value for the setting of the broker, as a lifetime or as a period of renewal.
DEFAULT_MS = -1
# A period of expiry that ends the token at once.
_AT_ONCE_MS = -1
_USER = "User"


class Token(NamedTuple):
    """A delegation token.

    Attributes:
        token_id: its id, which is the user name of a login with it.
        owner, requester: whose it is, and who has created it; "User:alice".
        renewers: who may renew it besides these.
        issued_ms, expires_ms, ends_ms: when it was created, when it expires unless it is renewed,
            and the latest time to which it can be renewed.
        hmac: what a login proves, in base64 its password.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    hmac: bytes

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return f"Token({self.token_id}, {self.owner})"


def list_tokens(cluster: Cluster, owners: Sequence[str]) -> list[Token]:
    """Return the tokens that the client may see.

    Args:
        cluster: the cluster.
        owners: principals such as "User:alice"; none for all.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    named = [
        DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name)
        for kind, name in map(_parts, owners)
    ]
    response = cluster.call_any(
        DescribeDelegationTokenRequest(owners=named or None), DescribeDelegationTokenResponse
    )
    if response.error_code:
        raise Refused(response.error_code, "Listing tokens")
    found = [
        _token(
            each,
            [f"{one.principal_type}:{one.principal_name}" for one in each.renewers],
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in response.tokens
    ]
    return sorted(found)


def create_token(
    cluster: Cluster, owner: str | None, renewers: Sequence[str], lifetime_ms: int
) -> Token:
    """Create a token.

    Args:
        cluster: the cluster.
        owner: a principal such as "User:alice"; None for the user of the connection.
        renewers: principals that may renew it, too.
        lifetime_ms: how long it can be renewed at most; `DEFAULT_MS` for the broker's setting.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    kind, name = ("", "") if owner is None else _parts(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(_parts, renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    made = cluster.call_controller(request, CreateDelegationTokenResponse)
    if made.error_code:
        raise Refused(made.error_code, "The token was not created")
    return _token(
        made,
        renewers,
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


def renew_token(cluster: Cluster, token_id: str, period_ms: int) -> int:
    """Let a token expire later; return when, in epoch milliseconds.

    Args:
        cluster: the cluster.
        token_id: its id.
        period_ms: from now on; `DEFAULT_MS` for the broker's setting.

    Raises:
        ClientError: there is no such token, or the cluster refuses the request.
    """
    request = RenewDelegationTokenRequest(
        hmac=_found(cluster, token_id).hmac, renew_period_ms=period_ms
    )
    answer = cluster.call_controller(request, RenewDelegationTokenResponse)
    if answer.error_code:
        raise Refused(answer.error_code, f"Token {token_id} was not renewed")
    return answer.expiry_timestamp_ms


def expire_token(cluster: Cluster, token_id: str) -> None:
    """End a token at once.

    Raises:
        ClientError: there is no such token, or the cluster refuses the request.
    """
    request = ExpireDelegationTokenRequest(
        hmac=_found(cluster, token_id).hmac, expiry_time_period_ms=_AT_ONCE_MS
    )
    answer = cluster.call_controller(request, ExpireDelegationTokenResponse)
    if answer.error_code:
        raise Refused(answer.error_code, f"Token {token_id} was not expired")


def _token(
    described: CreateDelegationTokenResponse | DescribeDelegationTokenResponseToken,
    renewers: Sequence[str],
    issued_ms: int,
    expires_ms: int,
    ends_ms: int,
) -> Token:
    """Return the token that a response describes."""
    owner = f"{described.principal_type}:{described.principal_name}"
    kind = described.token_requester_principal_type
    # Before version 3 a token was always its owner's own.
    requester = f"{kind}:{described.token_requester_principal_name}" if kind else owner
    secret = bytes(described.hmac)
    return Token(
        described.token_id,
        owner,
        requester,
        tuple(renewers),
        issued_ms,
        expires_ms,
        ends_ms,
        secret,
    )


def _found(cluster: Cluster, token_id: str) -> Token:
    for each in list_tokens(cluster, ()):
        if each.token_id == token_id:
            return each
    raise ClientError(
        f"There is no token {token_id} that this user may see.", "coterie tokens list shows them."
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    return (kind, name) if colon else (_USER, principal)
