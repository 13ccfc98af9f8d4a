"""What requests about delegation tokens need, besides a login [security/tokens-of-others]."""

from typing import Any

from coterie.coordinator.kernel.request import ANONYMOUS
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from coterie.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import Allowed, Outcome, refused
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_USER = "User"


def create_delegation_token(
    _broker: Services,
    access: ClientAccess,
    request: CreateDelegationTokenRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for CREATE_TOKENS on an owner that is not the client itself."""
    client = connection.client
    if client.principal == ANONYMOUS or client.by_token or not request.owner_principal_name:
        return None
    kind = request.owner_principal_type
    owner_type = _USER if kind is None else kind
    owner = f"{owner_type}:{request.owner_principal_name}"
    if owner == client.principal or access.may(
        AclOperation.CREATE_TOKENS, ResourceType.USER, owner
    ):
        return None
    requester_type, _, requester = client.principal.partition(":")
    return refused(
        request,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        connection.version,
        principal_type=owner_type,
        principal_name=request.owner_principal_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
    )


def describe_delegation_token(
    _broker: Services,
    access: ClientAccess,
    _request: DescribeDelegationTokenRequest,
    _connection: Exchange,
) -> Outcome:
    """Leave out tokens of others without DESCRIBE on them or DESCRIBE_TOKENS on their owner."""

    def complete(response: Any) -> Any:
        response.tokens = [each for each in response.tokens if _is_visible(access, each)]
        return response

    return Allowed(complete)


def _is_visible(access: ClientAccess, token: Any) -> bool:
    owner = f"{token.principal_type}:{token.principal_name}"
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    renewers = (f"{each.principal_type}:{each.principal_name}" for each in token.renewers)
    own = {owner, requester, *renewers}
    return (
        access.principal in own
        or access.may_quietly(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.may_quietly(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, owner)
    )
