"""Keys and values of the records in `__consumer_offsets`: offsets, classic groups (spec 14.1).

A key is an int16 record type and the key's body; a value is an int16 version and the value's body;
a null value is a tombstone. Keys have one version each and are never flexible. What is written is
what Kafka 4.1 and later writes; every version that any Kafka wrote is read. A type that is not
known here (the newer group types have theirs) is kept as it came, so that a log of a newer broker
can be read past it.
"""

from typing import NamedTuple, overload

from coterie.protocol.errors import MalformedFrame
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

_LEGACY_OFFSET_COMMIT = 0  # what Kafka 0.8.2 wrote; read as type 1, never written
_OFFSET_COMMIT = 1
_GROUP_METADATA = 2
_PREFIX_BYTES = 2  # of a record type or value version

# OffsetCommitValue.expire_timestamp of a commit that did not ask for a retention of its own.
NO_EXPIRY = -1


class UnknownValueVersion(MalformedFrame):
    """A value newer than this code: the load must stop, for skipping it would lose state."""


class UnknownKey(NamedTuple):
    """A key of a record type that is not read here: a load skips the record with a warning."""

    record_type: int
    body: bytes


@message(versions=(0, 0), flexible=None)
class OffsetCommitKey(Message):
    """Record type 1 (and 0): whose offset, of which partition."""

    group: String
    topic: String
    partition: Int32


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """An offset and its note.

    v1   expire_timestamp (in v1 only: for commits that ask for a retention)
    v3   leader_epoch (KIP-320)
    v4   flexible, topic_id (KIP-848)
    """

    offset: Int64
    leader_epoch: Int32 = since(3, default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, last=1, default=NO_EXPIRY)
    topic_id: Uuid = since(4, tag=0, default=ZERO_UUID)


@message(versions=(0, 0), flexible=None)
class GroupMetadataKey(Message):
    """Record type 2: which classic group."""

    group: String


@struct
class GroupMetadataMember(Struct):
    """A member of the generation; its subscription is its metadata for the chosen protocol only."""

    member_id: String
    group_instance_id: String | None = since(3, default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since(1, default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


# A group that was admitted must stay readable, however many members it has: not a request's budget.
@message(versions=(0, 4), flexible=4, element_budget=RESPONSE_ELEMENT_BUDGET)
class GroupMetadataValue(Message):
    """A generation of a classic group; no members: an empty group.

    v1   rebalance_timeout (KIP-62)
    v2   current_state_timestamp (KIP-211)
    v3   group_instance_id (KIP-345)
    v4   flexible; read, but written by no Kafka so far
    """

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = since(2, default=-1)
    members: list[GroupMetadataMember]


LogKey = OffsetCommitKey | GroupMetadataKey
LogValue = OffsetCommitValue | GroupMetadataValue

_OFFSET_COMMIT_PREFIX = _OFFSET_COMMIT.to_bytes(2, "big")
_GROUP_METADATA_PREFIX = _GROUP_METADATA.to_bytes(2, "big")
_OFFSET_VERSION_PREFIX = (4).to_bytes(2, "big")
_EXPIRING_VERSION_PREFIX = (1).to_bytes(2, "big")
_GROUP_VERSION_PREFIX = (3).to_bytes(2, "big")

# Compiled here and not at their first use: every commit needs them.
_encode_offset_key = OffsetCommitKey.encoder(0)
_encode_group_key = GroupMetadataKey.encoder(0)
_encode_offset_value = OffsetCommitValue.encoder(4)
_encode_group_value = GroupMetadataValue.encoder(3)


def encode_key(key: LogKey) -> bytes:
    """The key of a record: record type and body."""
    if type(key) is OffsetCommitKey:
        return _OFFSET_COMMIT_PREFIX + _encode_offset_key(key)
    assert type(key) is GroupMetadataKey, key
    return _GROUP_METADATA_PREFIX + _encode_group_key(key)


def encode_value(value: LogValue) -> bytes:
    """The value of a record in the version Kafka 4.1 and later write.

    That is 4 for an offset, or 1 where it has an expiry of its own, and 3 for a group.
    """
    if type(value) is OffsetCommitValue:
        if value.expire_timestamp == NO_EXPIRY:
            return _OFFSET_VERSION_PREFIX + _encode_offset_value(value)
        return _EXPIRING_VERSION_PREFIX + OffsetCommitValue.encoder(1)(value)
    assert type(value) is GroupMetadataValue, value
    return _GROUP_VERSION_PREFIX + _encode_group_value(value)


def decode_key(key: bytes) -> LogKey | UnknownKey:
    """The key a record has.

    Raises:
        MalformedFrame: the bytes are too short, or not a key of the type they name.
    """
    record_type = _prefix(key, "a record key")
    if record_type in (_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT):
        return OffsetCommitKey.decode(key, 0, _PREFIX_BYTES)
    if record_type == _GROUP_METADATA:
        return GroupMetadataKey.decode(key, 0, _PREFIX_BYTES)
    return UnknownKey(record_type, key[_PREFIX_BYTES:])


@overload
def decode_value(key: OffsetCommitKey, value: bytes | None) -> OffsetCommitValue | None: ...
@overload
def decode_value(key: GroupMetadataKey, value: bytes | None) -> GroupMetadataValue | None: ...
def decode_value(key: LogKey, value: bytes | None) -> LogValue | None:
    """The value that belongs to a key; None for a tombstone.

    Raises:
        UnknownValueVersion: written by a newer broker.
        MalformedFrame: the bytes are not a value of the version they name.
    """
    if value is None:
        return None
    version = _prefix(value, "a record value")
    cls = OffsetCommitValue if type(key) is OffsetCommitKey else GroupMetadataValue
    first, last = cls.versions
    if not first <= version <= last:
        raise UnknownValueVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return cls.decode(value, version, _PREFIX_BYTES)


def _prefix(data: bytes, what: str) -> int:
    """The int16 in front of a key or value."""
    if len(data) < _PREFIX_BYTES:
        raise MalformedFrame(f"{what} of {len(data)} bytes has no room for its type or version")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
