"""`roundrobin`: all partitions of all topics to the members in turn [assignors/round-robin]."""

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
    """Assign as Kafka's RoundRobinAssignor does."""
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
