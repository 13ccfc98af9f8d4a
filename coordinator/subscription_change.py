"""What a member changed when it joined again with other metadata than before.

Every rejoin with changed metadata begins a rebalance, and to the group's state machine they are all
alike. Who looks for causes wants to know whether somebody subscribed to another topic, or whether
it is the second half of a cooperative rebalance, in which members come back with fewer partitions.
"""

from enum import Enum

from coterie.coordinator.group import CONSUMER_PROTOCOL_TYPE, Protocols
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
)

# Larger metadata is not looked into: it would take the loop longer than the join itself. A consumer
# of 1,000 topics sends a third of this.
LARGEST_METADATA_BYTES = 65_536


class SubscriptionChange(Enum):
    """What changed; of several changes the one that stands first here."""

    PROTOCOLS = "protocols"
    TOPICS = "topics"
    OWNED_PARTITIONS = "owned partitions"
    USER_DATA = "user data"
    OPAQUE = "opaque"


def subscription_change(
    protocol_type: str | None, before: Protocols, now: Protocols
) -> SubscriptionChange:
    """What differs between two lists of protocols that are not the same.

    Args:
        protocol_type: only the metadata of consumers can be read.
        before: what the member offered.
        now: what it offers.
    """
    assert before != now, "a member that comes back unchanged has changed nothing"
    if [name for name, _ in before] != [name for name, _ in now]:
        return SubscriptionChange.PROTOCOLS
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return SubscriptionChange.OPAQUE
    pairs = [(old, new) for (_, old), (_, new) in zip(before, now, strict=True) if old != new]
    if sum(len(old) + len(new) for old, new in pairs) > LARGEST_METADATA_BYTES:
        return SubscriptionChange.OPAQUE
    try:
        read = [(decode_subscription(old), decode_subscription(new)) for old, new in pairs]
    except MalformedFrame:
        return SubscriptionChange.OPAQUE
    if any(set(old.topics) != set(new.topics) for old, new in read):
        return SubscriptionChange.TOPICS
    if any(_owned(old) != _owned(new) for old, new in read):
        return SubscriptionChange.OWNED_PARTITIONS
    return SubscriptionChange.USER_DATA


def _owned(subscription: ConsumerProtocolSubscription) -> tuple[int, set[tuple[str, int]]]:
    """What a member says it holds, and of which generation."""
    partitions = {
        (each.topic, partition)
        for each in subscription.owned_partitions
        for partition in each.partitions
    }
    return subscription.generation_id, partitions
