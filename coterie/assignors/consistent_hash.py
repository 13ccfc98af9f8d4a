"""RocketMQ's `consistent-hash`: clients have places on a ring, and a queue goes to the next place.

If a client joins or leaves, only the queues next to its places move; in return the shares are
uneven [assignors/rocketmq-model].
"""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from coterie.assignors.averagely import subscribers_of
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    partitions_of,
    subscribed_topics,
)

# RocketMQ's default number of places for each client.
VIRTUAL_NODES = 10
# The key of a queue contains the name of its broker; a Kafka partition has no broker of its own.
BROKER_NAME = "kafka"


def assign_consistent_hash(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    *,
    virtual_nodes: int = VIRTUAL_NODES,
    broker_name: str = BROKER_NAME,
) -> Assignment:
    """Assign as RocketMQ's AllocateMessageQueueConsistentHash does.

    Args:
        counts: the partitions of each topic.
        members: the clients.
        virtual_nodes: the number of places of each client on the ring.
        broker_name: part of the key that places a queue on the ring.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        ring: dict[int, str] = {}
        for client in subscribers_of(topic, members):
            for replica in range(virtual_nodes):
                ring[_place(f"{client}-{replica}")] = client
        places = sorted(ring)
        for partition in partitions_of(topic, counts):
            queue_id = partition.partition
            key = f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"
            at = bisect_left(places, _place(key))
            assignment[ring[places[at % len(places)]]].append(partition)
    return assignment


def _place(key: str) -> int:
    """Return the place of a key on the ring: the first four bytes of its MD5."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])
