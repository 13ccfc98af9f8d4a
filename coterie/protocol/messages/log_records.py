"""The records of `__consumer_offsets`: all their types; keys and values of offsets and groups.

Values are written as Kafka 4.1 and later writes them; every version that a Kafka release wrote is
read [group-log/record-types]. The newer group types have records of their own, whose classes are in
other modules. A key of a type that no release wrote is kept undecoded, so that the log of a newer
broker can be read [group-log/unknown-types].
"""

from typing import overload

from coterie.protocol.messages.record_types import RecordType, RecordTypes
from coterie.protocol.primitives import PREFIX_BYTES
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

# OffsetCommitValue.expire_timestamp of a commit without a retention of its own.
NO_EXPIRY = -1


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


# -- the types of records --------------------------------------------------------------------------

# The versions of values that are written.
_OFFSET_VERSION = 4
_EXPIRING_OFFSET_VERSION = 1
_GROUP_VERSION = 3

_OFFSET_VERSION_PREFIX = _OFFSET_VERSION.to_bytes(PREFIX_BYTES, "big")
_EXPIRING_VERSION_PREFIX = _EXPIRING_OFFSET_VERSION.to_bytes(PREFIX_BYTES, "big")

# Looked up once: every commit encodes a value.
_encode_offset = OffsetCommitValue.encoder(_OFFSET_VERSION)


def _encode_offset_value(value: OffsetCommitValue) -> bytes:
    """Encode an offset as Kafka 4.1 and later does: version 1 if it has an expiry of its own."""
    if value.expire_timestamp == NO_EXPIRY:
        return _OFFSET_VERSION_PREFIX + _encode_offset(value)
    return _EXPIRING_VERSION_PREFIX + value.encode(_EXPIRING_OFFSET_VERSION)


_CONSUMER, _SHARE, _STREAMS = (
    "consumer_group_records",
    "share_group_records",
    "streams_group_records",
)

# All record types of `__consumer_offsets`. Kafka never used the numbers 9 and 18.
GROUP_RECORDS = RecordTypes(
    [
        # Written by Kafka 0.8.2.
        RecordType(0, "log_records", "OffsetCommit", name="LegacyOffsetCommit", read_as=1),
        RecordType(1, "log_records", "OffsetCommit", encode_value=_encode_offset_value),
        RecordType(2, "log_records", "GroupMetadata", version=_GROUP_VERSION),
        RecordType(3, _CONSUMER, "ConsumerGroupMetadata"),
        RecordType(4, _CONSUMER, "ConsumerGroupPartitionMetadata"),
        RecordType(5, _CONSUMER, "ConsumerGroupMemberMetadata"),
        RecordType(6, _CONSUMER, "ConsumerGroupTargetAssignmentMetadata"),
        RecordType(7, _CONSUMER, "ConsumerGroupTargetAssignmentMember"),
        RecordType(8, _CONSUMER, "ConsumerGroupCurrentMemberAssignment"),
        RecordType(10, _SHARE, "ShareGroupMemberMetadata"),
        RecordType(11, _SHARE, "ShareGroupMetadata"),
        RecordType(12, _SHARE, "ShareGroupTargetAssignmentMetadata"),
        RecordType(13, _SHARE, "ShareGroupTargetAssignmentMember"),
        RecordType(14, _SHARE, "ShareGroupCurrentMemberAssignment"),
        RecordType(15, _SHARE, "ShareGroupStatePartitionMetadata"),
        RecordType(16, _CONSUMER, "ConsumerGroupRegularExpression"),
        RecordType(17, _STREAMS, "StreamsGroupMetadata"),
        RecordType(19, _STREAMS, "StreamsGroupMemberMetadata"),
        RecordType(20, _STREAMS, "StreamsGroupTargetAssignmentMetadata"),
        RecordType(21, _STREAMS, "StreamsGroupTargetAssignmentMember"),
        RecordType(22, _STREAMS, "StreamsGroupCurrentMemberAssignment"),
        RecordType(23, _STREAMS, "StreamsGroupTopology"),
    ]
)

decode_key = GROUP_RECORDS.decode_key

# Nearly all records that are written are of offsets. A look at the class is faster than the lookup
# in the registry.
_OFFSET_KEY_PREFIX = (1).to_bytes(PREFIX_BYTES, "big")
_encode_offset_key = OffsetCommitKey.encoder(0)


def encode_key(key: Message) -> bytes:
    """Encode the key of a record: record type and body."""
    if type(key) is OffsetCommitKey:
        return _OFFSET_KEY_PREFIX + _encode_offset_key(key)
    return GROUP_RECORDS.encode_key(key)


def encode_value(value: Message) -> bytes:
    """Encode the value of a record in the version that Kafka 4.1 and later writes."""
    if type(value) is OffsetCommitValue and value.expire_timestamp == NO_EXPIRY:
        return _OFFSET_VERSION_PREFIX + _encode_offset(value)
    return GROUP_RECORDS.encode_value(value)


@overload
def decode_value(key: OffsetCommitKey, value: bytes | None) -> OffsetCommitValue | None: ...
@overload
def decode_value(key: GroupMetadataKey, value: bytes | None) -> GroupMetadataValue | None: ...
@overload
def decode_value(key: Message, value: bytes | None) -> Message | None: ...
def decode_value(key: Message, value: bytes | None) -> Message | None:
    """Decode the value of a record; None for a tombstone. See `RecordTypes.decode_value`."""
    return GROUP_RECORDS.decode_value(key, value)


def group_of(key: Message) -> str:
    """Return the group of a record: the first field of every key."""
    group_id: str = getattr(key, next(iter(key.fields_)))
    return group_id
