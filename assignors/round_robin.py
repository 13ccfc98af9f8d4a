"""`roundrobin`: all partitions of all topics, dealt out one by one to the members in order."""

from collections.abc import Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_member_order,
    partitions_of,
    subscribed_topics,
)


def assign_round_robin(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> Assignment:
    """Kafka's RoundRobinAssignor: a member that does not subscribe to the topic is passed over."""
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_member_order(members)
    turn = 0
    for topic in subscribed_topics(counts, members):
        for partition in partitions_of(topic, counts):
            while topic not in ordered[turn % len(ordered)].topics:
                turn += 1
            assignment[ordered[turn % len(ordered)].member_id].append(partition)
            turn += 1
    return assignment
