"""`range`: consecutive partitions of each topic to the members in order [assignors/range].

If several topics have the same number of partitions, a member gets the same partition numbers of
each, on which joins of topics rely. The first members get more than the last ones, once for every
topic.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_member_order,
    subscribed_topics,
)
from coterie.assignors.shares import (
    Run,
    Shares,
    Subscriber,
    T,
    Work,
    assigned,
    no_shares,
    subscriber,
)


def assign_range(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as Kafka's RangeAssignor does, the one of the clients and the coordinator's."""
    existing = {topic: counts[topic] for topic in subscribed_topics(counts, members)}
    shares = no_shares(members)
    return assigned(shares, share_ranges(existing, map(subscriber, members), shares))


def share_ranges(
    counts: Mapping[T, int], members: Iterable[Subscriber[T]], shares: Shares[T]
) -> Work:
    """Fill the shares of members, topic by topic.

    Args:
        counts: the partitions of each topic that exists and has a subscriber.
        members: the members.
        shares: of each member.
    """
    ordered = in_member_order(members)
    subscribers: dict[T, list[list[Run[T]]]] = {topic: [] for topic in counts}
    yield len(ordered)
    for member in ordered:
        for topic in member.topics:
            if topic in subscribers:
                subscribers[topic].append(shares[member.member_id])
        yield len(member.topics)
    for topic, count in counts.items():
        listed = subscribers[topic]
        each, extra = divmod(count, len(listed))
        start = 0
        # Where the members are more than the partitions, the last ones get nothing.
        for index, share in enumerate(listed[:count]):
            end = start + each + (index < extra)
            share.append((topic, range(start, end)))
            start = end
        yield len(listed)
