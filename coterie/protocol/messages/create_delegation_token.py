"""CreateDelegationToken (API key 38): create a token for the user of the connection (KIP-48).

v2   flexible encoding
v3   tokens for other users (KIP-373)
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
class CreateDelegationTokenRequestRenewer(Struct):
    """A user that may renew the token."""

    principal_type: String
    principal_name: String


@message(api_key=ApiKey.CREATE_DELEGATION_TOKEN, flexible=2)
class CreateDelegationTokenRequest(Message):
    """The token to create."""

    owner_principal_type: String | None = since(3, default="")
    owner_principal_name: String | None = since(3, default="")
    renewers: list[CreateDelegationTokenRequestRenewer]
    max_lifetime_ms: Int64


@message(api_key=ApiKey.CREATE_DELEGATION_TOKEN, flexible=2)
class CreateDelegationTokenResponse(Message):
    """The created token."""

    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
