"""`range`: consecutive partitions of each topic to the members in order [assignors/range].

If several topics have the same number of partitions, a member gets the same partition numbers of
each, on which joins of topics rely. The first members get more than the last ones, once for every
topic.
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
    """Assign as Kafka's RangeAssignor does, the one of the clients and the coordinator's."""
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
