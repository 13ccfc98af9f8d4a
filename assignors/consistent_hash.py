"""RocketMQ's `consistent-hash`: each client stands at ten places of a ring, each queue goes to the
next one.

When a client comes or goes only the queues next to its places move; the shares are uneven instead.
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

# RocketMQ's default.
VIRTUAL_NODES = 10
# A queue is known by its broker's name too; a Kafka partition has no broker of its own.
BROKER_NAME = "kafka"


def assign_consistent_hash(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    *,
    virtual_nodes: int = VIRTUAL_NODES,
    broker_name: str = BROKER_NAME,
) -> Assignment:
    """RocketMQ's AllocateMessageQueueConsistentHash.

    Args:
        counts: partitions by topic.
        members: the clients.
        virtual_nodes: places of a client on the ring.
        broker_name: part of a queue's key on the ring.
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
    """The first four bytes of the MD5: RocketMQ's ring, nothing to do with security."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])
