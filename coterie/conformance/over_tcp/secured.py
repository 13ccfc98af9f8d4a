"""What a broker with logins offers at the address under check."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from coterie.address import Address
from coterie.client.security import Security
from coterie.conformance.over_tcp.connection import Arrival, CheckConnection, Inbox
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.describe_acls import DescribeAclsResponse
from coterie.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.protocol.wire import Message
from coterie.security.acl import EVERYTHING
from coterie.security.acl_messages import description_request

M = TypeVar("M", bound=Message)

_ANSWER_LIMIT_S = 15.0


class Administrator(Protocol):
    """A connection of the administrator; see `Target`."""

    address: Address
    security: Security

    async def call(self, request: Message, response: type[M], highest: int = 32767) -> M:
        """Return the response to a request."""
        ...


class Secured(NamedTuple):
    """What a broker with logins offers at the address under check.

    Attributes:
        mechanisms: how clients may log in.
        has_authorizer: whether it has access rules.
        has_tokens: whether it issues delegation tokens.
    """

    mechanisms: Sequence[str]
    has_authorizer: bool
    has_tokens: bool


async def read_secured(target: Administrator) -> Secured:
    """Ask a broker what it offers; the administrator is logged in."""
    rules = await target.call(description_request(EVERYTHING), DescribeAclsResponse)
    tokens = await target.call(
        DescribeDelegationTokenRequest(owners=[]), DescribeDelegationTokenResponse
    )
    return Secured(
        await _mechanisms(target),
        rules.error_code != ErrorCode.SECURITY_DISABLED,
        tokens.error_code != ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    )


async def _mechanisms(target: Administrator) -> Sequence[str]:
    """Return the mechanisms that the answer to a handshake without a mechanism lists."""
    inbox: Inbox = asyncio.Queue()
    security = target.security._replace(mechanism="")
    connection = await CheckConnection.open("mechanisms", target.address, inbox, security)
    connection.send(encode_request(SaslHandshakeRequest(mechanism=""), 1, 1, connection.name))
    try:
        async with asyncio.timeout(_ANSWER_LIMIT_S):
            arrival: Arrival = await inbox.get()
    finally:
        connection.close()
    if arrival.frame is None:
        return ()
    return decode_response(SaslHandshakeResponse, arrival.frame, 1)[1].mechanisms
