"""What a member changed when it rejoined with other metadata [journal/rebalance-began].

To the state machine every changed rejoin is the same: it starts a rebalance. A reader of the
journal wants to know whether a member subscribed to another topic, or whether it is the second half
of a cooperative rebalance, in which members rejoin with fewer partitions.
"""

from enum import Enum

from coterie.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.coordinator.groups.classic.member import Protocols
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
)

# Larger metadata is not decoded, because that would take longer than the join itself. A consumer of
# 1,000 topics sends a third of this.
LARGEST_METADATA_BYTES = 65_536


class SubscriptionChange(Enum):
    """The kinds of changes; of several, the first one here is reported."""

    PROTOCOLS = "protocols"
    TOPICS = "topics"
    OWNED_PARTITIONS = "owned partitions"
    USER_DATA = "user data"
    OPAQUE = "opaque"


def subscription_change(
    protocol_type: str | None, before: Protocols, now: Protocols
) -> SubscriptionChange:
    """Return what differs between two lists of protocols that are not the same.

    Args:
        protocol_type: the group's; only the metadata of consumers can be decoded.
        before: the member's earlier protocols.
        now: its present ones.
    """
    assert before != now, "a member that rejoins unchanged has changed nothing"
    if [name for name, _ in before] != [name for name, _ in now]:
        return SubscriptionChange.PROTOCOLS
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return SubscriptionChange.OPAQUE
    pairs = [(old, new) for (_, old), (_, new) in zip(before, now, strict=True) if old != new]
    if sum(len(old) + len(new) for old, new in pairs) > LARGEST_METADATA_BYTES:
        return SubscriptionChange.OPAQUE
    try:
        decoded = [(decode_subscription(old), decode_subscription(new)) for old, new in pairs]
    except MalformedFrame:
        return SubscriptionChange.OPAQUE
    if any(set(old.topics) != set(new.topics) for old, new in decoded):
        return SubscriptionChange.TOPICS
    if any(_owned(old) != _owned(new) for old, new in decoded):
        return SubscriptionChange.OWNED_PARTITIONS
    return SubscriptionChange.USER_DATA


def _owned(subscription: ConsumerProtocolSubscription) -> tuple[int, set[tuple[str, int]]]:
    """Return the generation and the partitions that a member says it owns."""
    partitions = {
        (each.topic, partition)
        for each in subscription.owned_partitions
        for partition in each.partitions
    }
    return subscription.generation_id, partitions
