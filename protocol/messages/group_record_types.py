"""All record types of `__consumer_offsets`: their numbers, Kafka's names, their keys and values.

This module is for tools that print or decode a log. The coordinator decodes the records of offsets
and classic groups through `log_records` and skips all others, so that a server does not import the
declarations of the other types. Kafka never used the numbers 9 and 18.
"""

from typing import NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import consumer_group_records as consumer
from coterie.protocol.messages import share_group_records as share
from coterie.protocol.messages import streams_group_records as streams
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    value_version,
)
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import Message

# The end of the value of a member that uses the new protocol: one tagged field, tag 0, of one byte,
# 0. Kafka writes a null `classic_member_metadata` like this, while other null structures are the
# byte -1, which is what the codec implements [framing/null-structs].
NO_CLASSIC_MEMBER = b"\x01\x00\x01\x00"
_NO_TAGS = b"\x00"


class GroupRecordType(NamedTuple):
    """A record type: its number, the name of Kafka's schema, the classes of its key and value."""

    number: int
    name: str
    key: type[Message]
    value: type[Message]


class DecodedKey(NamedTuple):
    """A decoded key and its record type."""

    record_type: GroupRecordType
    key: Message

    @property
    def group_id(self) -> str:
        """The group of the record: the first field of every key."""
        group_id: str = getattr(self.key, next(iter(self.key.fields_)))
        return group_id


class DecodedValue(NamedTuple):
    """A decoded value and its version."""

    version: int
    value: Message


def _of(number: int, key: type[Message], value: type[Message], name: str = "") -> GroupRecordType:
    return GroupRecordType(number, name or key.__name__.removesuffix("Key"), key, value)


GROUP_RECORD_TYPES = {
    record_type.number: record_type
    for record_type in (
        _of(0, OffsetCommitKey, OffsetCommitValue, "LegacyOffsetCommit"),
        _of(1, OffsetCommitKey, OffsetCommitValue),
        _of(2, GroupMetadataKey, GroupMetadataValue),
        _of(3, consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        _of(
            4,
            consumer.ConsumerGroupPartitionMetadataKey,
            consumer.ConsumerGroupPartitionMetadataValue,
        ),
        _of(5, consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
        _of(
            6,
            consumer.ConsumerGroupTargetAssignmentMetadataKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
        _of(
            7,
            consumer.ConsumerGroupTargetAssignmentMemberKey,
            consumer.ConsumerGroupTargetAssignmentMemberValue,
        ),
        _of(
            8,
            consumer.ConsumerGroupCurrentMemberAssignmentKey,
            consumer.ConsumerGroupCurrentMemberAssignmentValue,
        ),
        _of(10, share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        _of(11, share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        _of(
            12,
            share.ShareGroupTargetAssignmentMetadataKey,
            share.ShareGroupTargetAssignmentMetadataValue,
        ),
        _of(
            13,
            share.ShareGroupTargetAssignmentMemberKey,
            share.ShareGroupTargetAssignmentMemberValue,
        ),
        _of(
            14,
            share.ShareGroupCurrentMemberAssignmentKey,
            share.ShareGroupCurrentMemberAssignmentValue,
        ),
        _of(
            15,
            share.ShareGroupStatePartitionMetadataKey,
            share.ShareGroupStatePartitionMetadataValue,
        ),
        _of(
            16,
            consumer.ConsumerGroupRegularExpressionKey,
            consumer.ConsumerGroupRegularExpressionValue,
        ),
        _of(17, streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
        _of(19, streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
        _of(
            20,
            streams.StreamsGroupTargetAssignmentMetadataKey,
            streams.StreamsGroupTargetAssignmentMetadataValue,
        ),
        _of(
            21,
            streams.StreamsGroupTargetAssignmentMemberKey,
            streams.StreamsGroupTargetAssignmentMemberValue,
        ),
        _of(
            22,
            streams.StreamsGroupCurrentMemberAssignmentKey,
            streams.StreamsGroupCurrentMemberAssignmentValue,
        ),
        _of(23, streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
    )
}


def decode_group_key(key: bytes) -> DecodedKey | UnknownKey:
    """Decode the key of any record of `__consumer_offsets`.

    Raises:
        MalformedFrame: the bytes are too short, or are not a key of their record type.
    """
    number = read_prefix(key, "the type of a record key")
    record_type = GROUP_RECORD_TYPES.get(number)
    if record_type is None:
        return UnknownKey(number, key[PREFIX_BYTES:])
    return DecodedKey(record_type, record_type.key.decode(key, 0, PREFIX_BYTES))


def decode_group_value(record_type: GroupRecordType, value: bytes) -> DecodedValue:
    """Decode the value of a record that is not a tombstone.

    Raises:
        UnknownValueVersion: a newer broker wrote the value.
        MalformedFrame: the bytes are not a value of their version.
    """
    version = value_version(record_type.value, value)
    if record_type.value is consumer.ConsumerGroupMemberMetadataValue:
        return DecodedValue(version, _decode_consumer_member(value, version))
    return DecodedValue(version, record_type.value.decode(value, version, PREFIX_BYTES))


def _decode_consumer_member(value: bytes, version: int) -> Message:
    cls = consumer.ConsumerGroupMemberMetadataValue
    try:
        return cls.decode(value, version, PREFIX_BYTES)
    except MalformedFrame:
        # This end is never a value that the codec accepts: after the mark 0 it decodes a structure.
        if not value.endswith(NO_CLASSIC_MEMBER):
            raise
        bare = value.removesuffix(NO_CLASSIC_MEMBER) + _NO_TAGS
        return cls.decode(bare, version, PREFIX_BYTES)
