"""Every record type of `__consumer_offsets`: number, Kafka's name, how key and value are read.

For tools that show a log or take it apart. The coordinator reads what it serves through
`log_records`, which knows the three types of offsets and classic groups only, so that a server does
not load the declarations here; it skips the others. Numbers 9 and 18 were never used (spec 14.1).
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
    UnknownValueVersion,
)
from coterie.protocol.wire import Message

_PREFIX_BYTES = 2  # of a record type or value version

# How Kafka ends the value of a member that speaks the new protocol: one tagged field, tag 0, of one
# byte, 0. In a tagged field a structure that is null has this mark; elsewhere it is -1, which is
# what the codec knows. Where the field is absent Kafka takes the member for a classic one.
_NO_CLASSIC_MEMBER = b"\x01\x00\x01\x00"
_NO_TAGS = b"\x00"


class GroupRecordType(NamedTuple):
    """A record type: its number, the name of Kafka's schema, its key and its value."""

    number: int
    name: str
    key: type[Message]
    value: type[Message]

    @property
    def value_versions(self) -> tuple[int, int]:
        """The first and the last version of the value that is read."""
        return self.value.versions


class DecodedKey(NamedTuple):
    """The key of a record of a known type."""

    record_type: GroupRecordType
    key: Message

    @property
    def group_id(self) -> str:
        """The group it is about: the first field of every key."""
        group_id: str = getattr(self.key, next(iter(self.key.fields_)))
        return group_id


class DecodedValue(NamedTuple):
    """The value of a record, and the version it was written in."""

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
    """The key of any record of `__consumer_offsets`.

    Raises:
        MalformedFrame: the bytes are too short, or not a key of the type they name.
    """
    number = _prefix(key, "a record key")
    record_type = GROUP_RECORD_TYPES.get(number)
    if record_type is None:
        return UnknownKey(number, key[_PREFIX_BYTES:])
    return DecodedKey(record_type, record_type.key.decode(key, 0, _PREFIX_BYTES))


def decode_group_value(record_type: GroupRecordType, value: bytes) -> DecodedValue:
    """The value of a record of that type; tombstones have none.

    Raises:
        UnknownValueVersion: written by a newer broker.
        MalformedFrame: the bytes are not a value of the version they name.
    """
    version = _prefix(value, "a record value")
    first, last = record_type.value_versions
    if not first <= version <= last:
        raise UnknownValueVersion(
            f"{record_type.value.__name__} has versions {first} to {last}, not {version}"
        )
    if record_type.value is consumer.ConsumerGroupMemberMetadataValue:
        return DecodedValue(version, _decode_consumer_member(value, version))
    return DecodedValue(version, record_type.value.decode(value, version, _PREFIX_BYTES))


def _decode_consumer_member(value: bytes, version: int) -> Message:
    cls = consumer.ConsumerGroupMemberMetadataValue
    try:
        return cls.decode(value, version, _PREFIX_BYTES)
    except MalformedFrame:
        # Never a legal ending for the codec: behind the mark 0 it looks for a structure.
        if not value.endswith(_NO_CLASSIC_MEMBER):
            raise
        bare = value.removesuffix(_NO_CLASSIC_MEMBER) + _NO_TAGS
        return cls.decode(bare, version, _PREFIX_BYTES)


def encode_group_key(number: int, key: Message) -> bytes:
    """The key of a record: record type and body."""
    assert type(key) is GROUP_RECORD_TYPES[number].key, (number, key)
    return number.to_bytes(_PREFIX_BYTES, "big") + key.encode(0)


def encode_group_value(value: Message, version: int = 0) -> bytes:
    """The value of a record, as the version given."""
    data = version.to_bytes(_PREFIX_BYTES, "big") + value.encode(version)
    if type(value) is not consumer.ConsumerGroupMemberMetadataValue:
        return data
    if value.classic_member_metadata is not None:
        return data
    return data.removesuffix(_NO_TAGS) + _NO_CLASSIC_MEMBER


def _prefix(data: bytes, what: str) -> int:
    """The int16 in front of a key or value."""
    if len(data) < _PREFIX_BYTES:
        raise MalformedFrame(f"{what} of {len(data)} bytes has no room for its type or version")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
