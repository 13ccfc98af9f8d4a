"""Keys and values of the records in `__consumer_offsets`: committed offsets and classic groups.

A key is an int16 record type and a body; a value is an int16 version and a body; a null value is a
tombstone [group-log/record-types]. Keys have one version and are never flexible. Values are written
as Kafka 4.1 and later writes them; every version that a Kafka release wrote is read. A key of
another record type is kept undecoded, so that the log of a newer broker can be read: the newer
group types have record types of their own [group-log/unknown-types].
"""

from typing import NamedTuple, overload

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    ZERO_UUID,
    Bytes,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)

_LEGACY_OFFSET_COMMIT = 0  # written by Kafka 0.8.2; read as type 1, never written
_OFFSET_COMMIT = 1
_GROUP_METADATA = 2

# The record types of the groups that exist beside classic ones, and Kafka's names of these groups.
# The key is the id of a group, which exists as long as it has this record.
OTHER_GROUP_TYPES = {3: "consumer", 11: "share", 17: "streams"}

# OffsetCommitValue.expire_timestamp of a commit without a retention of its own.
NO_EXPIRY = -1


class UnknownValueVersion(MalformedFrame):
    """A value is newer than this code; skipping it loses state [group-log/unknown-versions]."""


class UnknownKey(NamedTuple):
    """A key of another record type; a load skips the record [group-log/unknown-types]."""

    record_type: int
    body: bytes


@message(versions=(0, 0), flexible=None)
class OffsetCommitKey(Message):
    """Record types 1 and 0: the group and the partition of an offset."""

    group: String
    topic: String
    partition: Int32


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """A committed offset and the client's metadata [group-log/offset-value].

    v1   expire_timestamp (in v1 only, for commits with a retention of their own)
    v3   leader_epoch (KIP-320)
    v4   flexible encoding, topic_id (KIP-848)
    """

    offset: Int64
    leader_epoch: Int32 = since(3, default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, last=1, default=NO_EXPIRY)
    topic_id: Uuid = since(4, tag=0, default=ZERO_UUID)


@message(versions=(0, 0), flexible=None)
class GroupMetadataKey(Message):
    """Record type 2: a classic group."""

    group: String


@struct
class GroupMetadataMember(Struct):
    """A member of the generation; `subscription` is its metadata for the chosen protocol."""

    member_id: String
    group_instance_id: String | None = since(3, default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since(1, default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


# The element limit of requests does not apply: a group must stay readable however large it is.
@message(versions=(0, 4), flexible=4, element_budget=RESPONSE_ELEMENT_BUDGET)
class GroupMetadataValue(Message):
    """A generation of a classic group; an empty group has no members [group-log/group-value].

    v1   rebalance_timeout (KIP-62)
    v2   current_state_timestamp (KIP-211)
    v3   group_instance_id (KIP-345)
    v4   flexible encoding; no Kafka release has written it so far
    """

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = since(2, default=-1)
    members: list[GroupMetadataMember]


LogKey = OffsetCommitKey | GroupMetadataKey
LogValue = OffsetCommitValue | GroupMetadataValue

# The versions that are written.
_OFFSET_VERSION = 4
_EXPIRING_OFFSET_VERSION = 1
_GROUP_VERSION = 3

_OFFSET_COMMIT_PREFIX = _OFFSET_COMMIT.to_bytes(PREFIX_BYTES, "big")
_GROUP_METADATA_PREFIX = _GROUP_METADATA.to_bytes(PREFIX_BYTES, "big")
_OFFSET_VERSION_PREFIX = _OFFSET_VERSION.to_bytes(PREFIX_BYTES, "big")
_EXPIRING_VERSION_PREFIX = _EXPIRING_OFFSET_VERSION.to_bytes(PREFIX_BYTES, "big")
_GROUP_VERSION_PREFIX = _GROUP_VERSION.to_bytes(PREFIX_BYTES, "big")

# Looked up once: every commit encodes a key and a value.
_encode_offset_key = OffsetCommitKey.encoder(0)
_encode_group_key = GroupMetadataKey.encoder(0)
_encode_offset_value = OffsetCommitValue.encoder(_OFFSET_VERSION)
_encode_group_value = GroupMetadataValue.encoder(_GROUP_VERSION)


def encode_key(key: LogKey) -> bytes:
    """Encode the key of a record: record type and body."""
    if type(key) is OffsetCommitKey:
        return _OFFSET_COMMIT_PREFIX + _encode_offset_key(key)
    assert type(key) is GroupMetadataKey, key
    return _GROUP_METADATA_PREFIX + _encode_group_key(key)


def encode_value(value: LogValue) -> bytes:
    """Encode the value of a record in the version that Kafka 4.1 and later writes.

    This is version 4 for an offset, 1 for an offset with an expiry of its own, 3 for a group.
    """
    if type(value) is OffsetCommitValue:
        if value.expire_timestamp == NO_EXPIRY:
            return _OFFSET_VERSION_PREFIX + _encode_offset_value(value)
        return _EXPIRING_VERSION_PREFIX + OffsetCommitValue.encoder(_EXPIRING_OFFSET_VERSION)(value)
    assert type(value) is GroupMetadataValue, value
    return _GROUP_VERSION_PREFIX + _encode_group_value(value)


def decode_key(key: bytes) -> LogKey | UnknownKey:
    """Decode the key of a record.

    Raises:
        MalformedFrame: the bytes are too short, or are not a key of their record type.
    """
    record_type = read_prefix(key, "the type of a record key")
    if record_type in (_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT):
        return OffsetCommitKey.decode(key, 0, PREFIX_BYTES)
    if record_type == _GROUP_METADATA:
        return GroupMetadataKey.decode(key, 0, PREFIX_BYTES)
    return UnknownKey(record_type, key[PREFIX_BYTES:])


def other_group(key: UnknownKey) -> str | None:
    """Return the id of the consumer, share or streams group that the key is about, if it is one.

    Other records of such groups, of members and assignments, are not looked at
    [group-log/other-group-types].

    Raises:
        MalformedFrame: the bytes are not a key of their record type.
    """
    if key.record_type not in OTHER_GROUP_TYPES:
        return None
    return GroupMetadataKey.decode(key.body, 0).group


@overload
def decode_value(key: OffsetCommitKey, value: bytes | None) -> OffsetCommitValue | None: ...
@overload
def decode_value(key: GroupMetadataKey, value: bytes | None) -> GroupMetadataValue | None: ...
def decode_value(key: LogKey, value: bytes | None) -> LogValue | None:
    """Decode the value of a record; None for a tombstone.

    Raises:
        UnknownValueVersion: a newer broker wrote the value.
        MalformedFrame: the bytes are not a value of their version.
    """
    if value is None:
        return None
    cls = OffsetCommitValue if type(key) is OffsetCommitKey else GroupMetadataValue
    return cls.decode(value, value_version(cls, value), PREFIX_BYTES)


def value_version(cls: type[Message], value: bytes) -> int:
    """Return the version of an encoded value, which must be one that `cls` declares.

    Raises:
        UnknownValueVersion: `cls` does not declare the version.
        MalformedFrame: the bytes are too short.
    """
    version = read_prefix(value, "the version of a record value")
    first, last = cls.versions
    if not first <= version <= last:
        raise UnknownValueVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return version
