"""`uniform`: the coordinator's assignor of KIP-848, balanced over all topics and sticky.

If all members subscribe to the same topics, each keeps its partitions up to its quota, and the
remaining ones fill the members below their quota in order. Otherwise `uniform_mixed.py` balances
topic by topic.
"""

from collections.abc import Callable, Mapping, Sequence

from coterie.assignors.java_order import (
    ids_in_map_order,
    ids_in_set_order,
    in_map_order,
    numbers_in_set_order,
    signed_halves,
)
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
    """Assign as Kafka's UniformAssignor does [assignors/uniform].

    Topics are ordered by name here; Kafka orders them by their ids, which are random.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    topics = subscribed_topics(counts, ordered)
    existing = {topic: counts[topic] for topic in topics}
    if len({frozenset(member.topics) for member in ordered}) > 1:
        return assign_mixed(existing, ordered)
    return _assign_same(existing, ordered)


def assign_uniform_by_ids(
    counts: PartitionCounts,
    topic_ids: Mapping[str, bytes],
    members: Sequence[MemberSubscription],
    *,
    homogeneous: bool,
) -> Assignment:
    """Assign as the coordinator does, which knows the ids of topics [assignors/uniform-order].

    Args:
        counts: the partitions of the topics that exist and have a subscriber.
        topic_ids: the id of each of these topics.
        members: the members, with the target that they had as what they own.
        homogeneous: whether all of them subscribe to the same.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    if not homogeneous:
        return assign_mixed(counts, ordered, lambda topic: signed_halves(topic_ids[topic]))
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    in_order = [
        names[each] for each in ids_in_set_order(topic_ids[name] for name in in_map_order(counts))
    ]

    def owned_order(member: MemberSubscription) -> list[TopicPartition]:
        indexes: dict[str, list[int]] = {}
        for topic, index in member.owned:
            indexes.setdefault(topic, []).append(index)
        return [
            TopicPartition(names[topic_id], index)
            for topic_id in ids_in_map_order(topic_ids[topic] for topic in indexes)
            for index in numbers_in_set_order(indexes[names[topic_id]])
        ]

    return _assign_same({topic: counts[topic] for topic in in_order}, ordered, owned_order)


def _by_name(member: MemberSubscription) -> list[TopicPartition]:
    return sorted(member.owned)


def _assign_same(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    owned_order: Callable[[MemberSubscription], list[TopicPartition]] = _by_name,
) -> Assignment:
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
    below_quota: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_larger = larger > 0
        quota = floor + has_larger
        owned = [each for each in owned_order(member) if each.topic in counts]
        assignment[member.member_id] = owned[:quota]
        left += owned[quota:]
        quota -= len(assignment[member.member_id])
        if quota > 0 and has_larger and len(members) - index > larger:
            # Enough members come later to take the remaining larger quotas, perhaps because they
            # own so many partitions already; so this member takes the smaller one.
            quota -= 1
            has_larger = False
        if quota > 0:
            below_quota.append((member.member_id, quota))
        larger -= has_larger
    _fill(assignment, below_quota, left)
    return assignment


def _fill(
    assignment: Assignment, below_quota: list[tuple[str, int]], left: list[TopicPartition]
) -> None:
    start = 0
    for member_id, quota in below_quota:
        assignment[member_id] += left[start : start + quota]
        start += quota
