"""DescribeDelegationToken (API key 41): the tokens of some owners (KIP-48).

v2   flexible encoding
v3   the user that has requested each token (KIP-373)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class DescribeDelegationTokenRequestOwner(Struct):
    """An owner of tokens."""

    principal_type: String
    principal_name: String


@message(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, flexible=2)
class DescribeDelegationTokenRequest(Message):
    """The owners; null for all."""

    owners: list[DescribeDelegationTokenRequestOwner] | None


@struct
class DescribeDelegationTokenResponseRenewer(Struct):
    """A user that may renew the token."""

    principal_type: String
    principal_name: String


@struct
class DescribeDelegationTokenResponseToken(Struct):
    """A token."""

    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribeDelegationTokenResponseRenewer]


@message(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, flexible=2)
class DescribeDelegationTokenResponse(Message):
    """The tokens."""

    error_code: Int16
    tokens: list[DescribeDelegationTokenResponseToken]
    throttle_time_ms: Int32 = 0
