"""`range`: topic by topic, consecutive partitions to the members in order (KIP-341 for the order).

With several topics of the same number of partitions a member gets the same numbers of each, which
is what joins over partitions rely on; with few partitions the first members get more than the last.
"""

from collections.abc import Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_member_order,
    partitions_of,
    subscribed_topics,
)


def assign_range(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Kafka's RangeAssignor, of clients and of the coordinator alike (spec section 15.3)."""
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_member_order(members)
    for topic in subscribed_topics(counts, members):
        subscribers = [member.member_id for member in ordered if topic in member.topics]
        partitions = partitions_of(topic, counts)
        each, extra = divmod(len(partitions), len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + each + (index < extra)
            assignment[member_id] += partitions[start:end]
            start = end
    return assignment
