"""Assignments as runs of partition numbers, and how assignors work that may take long.

The coordinator assigns a hundred thousand partitions to a thousand members. With an object for each
partition that takes as long as everything else together, so these assignors see the numbers of one
topic as one value. Topics are named by their names or by their ids.

Such an assignor fills `Shares` that its caller has made, and yields how much it has done since it
last yielded. Nothing else happens between two steps, so the caller may do other work then.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition

# The name of a topic, or its id.
T = TypeVar("T", bound=Hashable)

# Partitions of one topic that a member is given together.
Run = tuple[T, Sequence[int]]

# What each member id is given, in the order in which it was assigned.
Shares = dict[str, list[tuple[T, Sequence[int]]]]

# Steps of work: each yields about how many partitions and subscriptions it has handled.
Work = Iterator[int]
# The least work of a step where many members have a little each: less would cost as much itself.
STEP_WORK = 100


class Subscriber(Generic[T]):
    """A member as an assignor sees it.

    Attributes:
        member_id: its id.
        group_instance_id: the instance id of a static member.
        topics: the topics to which it subscribes.
        owned: the partitions that it has, by topic.
    """

    __slots__ = ("group_instance_id", "member_id", "owned", "topics")

    def __init__(
        self,
        member_id: str,
        topics: Collection[T],
        owned: Mapping[T, Sequence[int]],
        group_instance_id: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.topics = topics
        self.owned = owned
        self.group_instance_id = group_instance_id


def subscriber(member: MemberSubscription) -> Subscriber[str]:
    """Return a member with what it owns by topic, in the order of names and numbers."""
    owned: dict[str, list[int]] = {}
    for topic, index in sorted(member.owned):
        owned.setdefault(topic, []).append(index)
    topics = dict.fromkeys(member.topics)
    return Subscriber(member.member_id, topics, owned, member.group_instance_id)


def no_shares(members: Iterable[MemberSubscription]) -> Shares[str]:
    """Return shares in which each member has nothing yet."""
    return {member.member_id: [] for member in members}


def assigned(shares: Shares[str], work: Work) -> Assignment:
    """Return the partitions of each member after all work is done."""
    for _ in work:
        pass
    return {
        member_id: [TopicPartition(topic, index) for topic, indexes in runs for index in indexes]
        for member_id, runs in shares.items()
    }
