"""DescribeUserScramCredentials (API key 50): which SCRAM credentials users have (KIP-554).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    struct,
)


@struct
class DescribeUserScramCredentialsRequestUser(Struct):
    """The name of a user."""

    name: String


@message(api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, flexible=0)
class DescribeUserScramCredentialsRequest(Message):
    """The users to describe; null or none for all."""

    users: list[DescribeUserScramCredentialsRequestUser] | None


@struct
class DescribeUserScramCredentialsResponseCredential(Struct):
    """A mechanism and its number of iterations."""

    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResponseResult(Struct):
    """The credentials of a user."""

    user: String
    error_code: Int16
    error_message: String | None
    credential_infos: list[DescribeUserScramCredentialsResponseCredential]


@message(api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, flexible=0)
class DescribeUserScramCredentialsResponse(Message):
    """The credentials of each user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    results: list[DescribeUserScramCredentialsResponseResult]
