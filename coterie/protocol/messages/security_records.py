"""Records of the security log: Kafka's metadata records about credentials, rules and tokens.

The value of a record is Kafka's frame, an unsigned varint 1, the number of the type and the
version, and a flexible body [security/log]. The key is null. The field names are Kafka's.
"""

from collections.abc import Callable
from typing import Any

from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.primitives import read_uvarint, uvarint
from coterie.protocol.wire import (
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    message,
)

# Kafka's version of the frame around each metadata record.
_FRAME_VERSION = 1
# The version of every type that is written, and the only one there is.
_VERSION = 0


@message(versions=(0, 0), flexible=0)
class DelegationTokenRecord(Message):
    """A delegation token (KIP-48); principals are texts such as "User:alice"."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@message(versions=(0, 0), flexible=0)
class UserScramCredentialRecord(Message):
    """A credential of a user for a SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(versions=(0, 0), flexible=0)
class AccessControlEntryRecord(Message):
    """A rule of the authorizer; the numbers are those of DescribeAcls."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord(Message):
    """A rule is no more."""

    id: Uuid


@message(versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord(Message):
    """A credential is no more."""

    name: String
    mechanism: Int8


@message(versions=(0, 0), flexible=0)
class RemoveDelegationTokenRecord(Message):
    """A delegation token is no more."""

    token_id: String


SecurityRecord = (
    DelegationTokenRecord
    | UserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | RemoveUserScramCredentialRecord
    | RemoveDelegationTokenRecord
)

# The types, by Kafka's number of each.
SECURITY_RECORDS: dict[int, type[SecurityRecord]] = {
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    22: RemoveUserScramCredentialRecord,
    26: RemoveDelegationTokenRecord,
}

_PREFIXES: dict[type[SecurityRecord], bytes] = {
    record_class: uvarint(_FRAME_VERSION) + uvarint(number) + uvarint(_VERSION)
    for number, record_class in SECURITY_RECORDS.items()
}


def encode_security_record(record: SecurityRecord) -> bytes:
    """Return the value of a record."""
    encode: Callable[[Any], bytes] = type(record).encoder(_VERSION)
    return _PREFIXES[type(record)] + encode(record)


def decode_security_record(value: bytes) -> SecurityRecord:
    """Decode the value of a record.

    Raises:
        MalformedFrame: it is none of these records.
    """
    try:
        frame, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except DECODE_ERRORS as error:
        raise MalformedFrame(f"the frame of a record ends early: {error}") from None
    record_class = SECURITY_RECORDS.get(number)
    if frame != _FRAME_VERSION or record_class is None or version != _VERSION:
        raise MalformedFrame(
            f"a record of type {number}, version {version}, frame {frame} is not known"
        )
    return record_class.decode(value, version, position)
