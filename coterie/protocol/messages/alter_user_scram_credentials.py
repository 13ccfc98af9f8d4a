"""AlterUserScramCredentials (API key 51): set and delete SCRAM credentials (KIP-554).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Bytes,
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
class AlterUserScramCredentialsRequestDeletion(Struct):
    """A credential to delete."""

    name: String
    mechanism: Int8


@struct
class AlterUserScramCredentialsRequestUpsertion(Struct):
    """A credential to set."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, flexible=0)
class AlterUserScramCredentialsRequest(Message):
    """The credentials to delete and to set."""

    deletions: list[AlterUserScramCredentialsRequestDeletion]
    upsertions: list[AlterUserScramCredentialsRequestUpsertion]


@struct
class AlterUserScramCredentialsResponseResult(Struct):
    """The result for a user."""

    user: String
    error_code: Int16
    error_message: String | None


@message(api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, flexible=0)
class AlterUserScramCredentialsResponse(Message):
    """The result for each user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResponseResult]
