"""RocketMQ's `averagely` and `averagely-by-circle`: the queues of a topic by position.

In RocketMQ every client computes its own share [assignors/rocketmq-model]. A queue is a partition
here, and a client id is a member id.
"""

from collections.abc import Sequence
from typing import TypeVar

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    subscribed_topics,
    utf16,
)

Item = TypeVar("Item")


def subscribers_of(topic: str, members: Sequence[MemberSubscription]) -> list[str]:
    """Return the client ids of a topic, in the order that all clients use."""
    return sorted((member.member_id for member in members if topic in member.topics), key=utf16)


def share_averagely(
    partitions: Sequence[TopicPartition], clients: Sequence[str]
) -> dict[str, list[TopicPartition]]:
    """Give each client consecutive queues, the first ones one more [assignors/rocketmq-model]."""
    return {
        client: list(share_of_client(partitions, index, len(clients)))
        for index, client in enumerate(clients)
    }


def share_of_client(partitions: Sequence[Item], index: int, clients: int) -> Sequence[Item]:
    """Return the share of one client by its place; a client of RocketMQ computes only its own."""
    each, extra = divmod(len(partitions), clients)
    start = each * index + min(index, extra)
    return partitions[start : start + each + (index < extra)]


def assign_averagely(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as AllocateMessageQueueAveragely does, RocketMQ's default."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        shares = share_averagely(partitions_of(topic, counts), subscribers_of(topic, members))
        for client, share in shares.items():
            assignment[client] += share
    return assignment


def assign_averagely_by_circle(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> Assignment:
    """Assign as AllocateMessageQueueAveragelyByCircle does [assignors/rocketmq-model]."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        clients = subscribers_of(topic, members)
        for index, partition in enumerate(partitions_of(topic, counts)):
            assignment[clients[index % len(clients)]].append(partition)
    return assignment
