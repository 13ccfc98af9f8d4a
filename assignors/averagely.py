"""RocketMQ's `averagely` and `averagely-by-circle`: the queues of a topic, shared by position.

RocketMQ has no coordinator that assigns: every client sorts the queues and the client ids of its
group and works out its own share, and all come to the same. A queue is a partition here, a client
id a member id.
"""

from collections.abc import Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    subscribed_topics,
    utf16,
)


def subscribers_of(topic: str, members: Sequence[MemberSubscription]) -> list[str]:
    """The client ids of a topic, in the order that all clients agree on."""
    return sorted((member.member_id for member in members if topic in member.topics), key=utf16)


def share_averagely(
    partitions: Sequence[TopicPartition], clients: Sequence[str]
) -> dict[str, list[TopicPartition]]:
    """Consecutive queues to each client, the first ones get one more; with too few, one or none."""
    each, extra = divmod(len(partitions), len(clients))
    shares = {}
    start = 0
    for index, client in enumerate(clients):
        end = start + each + (index < extra)
        shares[client] = list(partitions[start:end])
        start = end
    return shares


def assign_averagely(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """RocketMQ's AllocateMessageQueueAveragely, its default."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        shares = share_averagely(partitions_of(topic, counts), subscribers_of(topic, members))
        for client, share in shares.items():
            assignment[client] += share
    return assignment


def assign_averagely_by_circle(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> Assignment:
    """RocketMQ's AllocateMessageQueueAveragelyByCircle: one each, round and round."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        clients = subscribers_of(topic, members)
        for index, partition in enumerate(partitions_of(topic, counts)):
            assignment[clients[index % len(clients)]].append(partition)
    return assignment
