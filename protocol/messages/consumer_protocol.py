"""The metadata and assignments of consumers in JoinGroup and SyncGroup.

Groups of protocol type "consumer" carry these bytes [consumer-protocol/protocol-type].

To the coordinator these bytes are opaque, except that it reads the subscribed topics
[consumer-protocol/subscribed-topics]. Tools decode them to show subscriptions and assignments. Each
begins with an int16 version [consumer-protocol/version-prefix]; a newer version is read as the
newest known one [consumer-protocol/newer-versions].

v1   owned_partitions (KIP-429, cooperative rebalancing)
v2   generation_id (KIP-792)
v3   rack_id (KIP-881)

Assignments have the same versions and are equal in all of them.
"""

from typing import TypeVar

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import Bytes, Int32, Message, String, Struct, message, since, struct

LATEST_VERSION = 3


@struct
class TopicPartition(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: list[Int32]


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolSubscription(Message):
    """The topics of a member, and the partitions that it owns [consumer-protocol/subscription]."""

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, factory=list)
    generation_id: Int32 = since(2, default=-1)
    rack_id: String | None = since(3, default=None)


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolAssignment(Message):
    """The partitions that are assigned to a member [consumer-protocol/assignment]."""

    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = None


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode the metadata of a member.

    Raises:
        MalformedFrame: the bytes are not a subscription; other protocol types carry other bytes.
    """
    return _decode(ConsumerProtocolSubscription, metadata)


def decode_subscribed_topics(metadata: bytes) -> list[str]:
    """Decode the topics in the metadata of a member, as the coordinator does.

    The bytes are read as version 0, with which every later version begins
    [consumer-protocol/subscribed-topics].

    Raises:
        MalformedFrame: the bytes are no subscription.
    """
    _version(ConsumerProtocolSubscription, metadata)
    return ConsumerProtocolSubscription.decode(metadata, 0, PREFIX_BYTES).topics


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = LATEST_VERSION
) -> bytes:
    """Encode the metadata of a member in a version."""
    return version.to_bytes(PREFIX_BYTES, "big") + subscription.encode(version)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode the assignment of a member.

    Raises:
        MalformedFrame: the bytes are not an assignment.
    """
    return _decode(ConsumerProtocolAssignment, assignment)


def encode_assignment(
    assignment: ConsumerProtocolAssignment, version: int = LATEST_VERSION
) -> bytes:
    """Encode the assignment of a member in a version."""
    return version.to_bytes(PREFIX_BYTES, "big") + assignment.encode(version)


_M = TypeVar("_M", bound=Message)


def _decode(cls: type[_M], data: bytes) -> _M:
    return cls.decode(data, min(_version(cls, data), LATEST_VERSION), PREFIX_BYTES)


def _version(cls: type[Message], data: bytes) -> int:
    version = read_prefix(data, f"the version of a {cls.__name__}")
    if version < 0:
        raise MalformedFrame(f"{cls.__name__} has no version {version}")
    return version
