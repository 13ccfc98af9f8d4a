"""What consumers put into the opaque bytes of JoinGroup and SyncGroup (spec section 21).

They are the bytes of protocol type "consumer"; an int16 version stands in front of each. The
classic state machine never looks inside. Tools that show subscriptions do, and OffsetDelete, which
refuses topics that a group still reads. As in Kafka, a version newer than ours is read as our
newest, and what follows the last known field is skipped.

v1   owned_partitions (KIP-429: cooperative rebalancing)
v2   generation_id (KIP-792)
v3   rack_id (KIP-881)

Assignments have the same versions, without a change.
"""

from typing import TypeVar

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.wire import Bytes, Int32, Message, String, Struct, message, since, struct

LATEST_VERSION = 3


@struct
class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolSubscription(Message):
    """What a member wants to read; with the cooperative protocol also what it holds."""

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, factory=list)
    generation_id: Int32 = since(2, default=-1)
    rack_id: String | None = since(3, default=None)


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolAssignment(Message):
    """What a member shall read."""

    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = None


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a member's metadata.

    Raises:
        MalformedFrame: the bytes are none; a group may agree on any protocol type and any bytes.
    """
    return _decode(ConsumerProtocolSubscription, metadata)


def decode_subscribed_topics(metadata: bytes) -> list[str]:
    """The topics in a member's metadata, read as version 0, which every later version begins with.

    That is how the coordinator looks at subscriptions (spec section 3): owned partitions it cannot
    read, or that are not there yet, do not make a subscription unknown.

    Raises:
        MalformedFrame: the bytes are no subscription.
    """
    if len(metadata) < 2 or metadata[0] > 127:
        raise MalformedFrame(f"ConsumerProtocolSubscription: {metadata[:2]!r} is no version")
    return ConsumerProtocolSubscription.decode(metadata[2:], 0).topics


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = LATEST_VERSION
) -> bytes:
    """A member's metadata, as the version given."""
    return version.to_bytes(2, "big") + subscription.encode(version)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """The partitions in a member's assignment.

    Raises:
        MalformedFrame: the bytes are none.
    """
    return _decode(ConsumerProtocolAssignment, assignment)


def encode_assignment(
    assignment: ConsumerProtocolAssignment, version: int = LATEST_VERSION
) -> bytes:
    """A member's assignment, as the version given."""
    return version.to_bytes(2, "big") + assignment.encode(version)


_M = TypeVar("_M", bound=Message)


def _decode(cls: type[_M], data: bytes) -> _M:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise MalformedFrame(f"{cls.__name__}: {data[:2]!r} is no version")
    return cls.decode(data[2:], min(version, LATEST_VERSION))
