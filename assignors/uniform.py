"""`uniform`: the coordinator's own assignor of KIP-848: balanced over all topics, and sticky.

Where all members subscribe to the same topics each keeps what it has up to its quota, and what is
left fills the others in order. Otherwise `uniform_mixed.py` balances topic by topic.
"""

from collections.abc import Sequence

from coterie.assignors.java_order import in_map_order
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    subscribed_topics,
)
from coterie.assignors.uniform_mixed import assign_mixed


def assign_uniform(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Kafka's UniformAssignor (spec section 15.3).

    Topics are taken by name here; Kafka goes by their ids, which say nothing about order.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    topics = subscribed_topics(counts, ordered)
    existing = {topic: counts[topic] for topic in topics}
    if len({frozenset(member.topics) for member in ordered}) > 1:
        return assign_mixed(existing, ordered)
    return _assign_same(existing, ordered)


def _assign_same(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    if not counts:
        return {member.member_id: [] for member in members}
    taken = {partition for member in members for partition in member.owned}
    left = [
        partition
        for topic in counts
        for partition in partitions_of(topic, counts)
        if partition not in taken
    ]
    floor, larger = divmod(sum(counts.values()), len(members))
    assignment: Assignment = {}
    lacking: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_larger = larger > 0
        quota = floor + has_larger
        owned = [each for each in sorted(member.owned) if each.topic in counts]
        assignment[member.member_id] = owned[:quota]
        left += owned[quota:]
        quota -= len(assignment[member.member_id])
        if quota > 0 and has_larger and len(members) - index > larger:
            # Others may have the larger share already; the last ones must take what is left of it.
            quota -= 1
            has_larger = False
        if quota > 0:
            lacking.append((member.member_id, quota))
        larger -= has_larger
    _fill(assignment, lacking, left)
    return assignment


def _fill(
    assignment: Assignment, lacking: list[tuple[str, int]], left: list[TopicPartition]
) -> None:
    start = 0
    for member_id, quota in lacking:
        assignment[member_id] += left[start : start + quota]
        start += quota
