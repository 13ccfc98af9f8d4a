"""The metadata and assignments of consumers in JoinGroup and SyncGroup.

Groups of protocol type "consumer" carry these bytes [consumer-protocol/protocol-type].

To the coordinator these bytes are opaque, except that it reads the subscribed topics
[consumer-protocol/protocol-type]. Tools decode them to show subscriptions and assignments. Each
begins with an int16 version; a newer version is read as the newest known one.

v1   owned_partitions (KIP-429, cooperative rebalancing)
v2   generation_id (KIP-792)
v3   rack_id (KIP-881)

Assignments have the same versions and are equal in all of them.
"""

from coterie.protocol.embedded import decode_embedded, encode_embedded
from coterie.protocol.wire import Bytes, Int32, Message, String, Struct, message, since, struct

LATEST_VERSION = 3


@struct
class TopicPartition(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: list[Int32]


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolSubscription(Message):
    """The topics of a member, and the partitions that it owns [consumer-protocol/protocol-type]."""

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, factory=list)
    generation_id: Int32 = since(2, default=-1)
    rack_id: String | None = since(3, default=None)


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolAssignment(Message):
    """The partitions that are assigned to a member [consumer-protocol/protocol-type]."""

    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = None


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode the metadata of a member.

    Raises:
        MalformedFrame: the bytes are not a subscription; other protocol types carry other bytes.
    """
    return decode_embedded(ConsumerProtocolSubscription, metadata, LATEST_VERSION)


def decode_subscribed_topics(metadata: bytes) -> list[str]:
    """Decode the topics in the metadata of a member, as the coordinator does.

    The bytes are read as version 0, with which every later version begins
    [consumer-protocol/protocol-type].

    Raises:
        MalformedFrame: the bytes are no subscription.
    """
    return decode_embedded(ConsumerProtocolSubscription, metadata, 0).topics


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = LATEST_VERSION
) -> bytes:
    """Encode the metadata of a member in a version."""
    return encode_embedded(subscription, version)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode the assignment of a member.

    Raises:
        MalformedFrame: the bytes are not an assignment.
    """
    return decode_embedded(ConsumerProtocolAssignment, assignment, LATEST_VERSION)


def encode_assignment(
    assignment: ConsumerProtocolAssignment, version: int = LATEST_VERSION
) -> bytes:
    """Encode the assignment of a member in a version."""
    return encode_embedded(assignment, version)
