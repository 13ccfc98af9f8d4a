"""What an assignor is given and what it gives back: values, so that an assignment can be computed,
printed and compared anywhere, a live group's and one recorded years ago alike.

An assignor is a function of the partition counts and the members' subscriptions. It is pure and
deterministic; where Kafka's own result depends on the order of Java's hash maps, `java_order.py`
gives that order. Racks are not known here (the log of a group does not hold them), so the
rack-aware variants of KIP-881 are left out: without racks they are the plain ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class MemberSubscription(NamedTuple):
    """One member as the leader of its group sees it.

    Attributes:
        member_id: unique in the group.
        topics: what it subscribes to.
        owned: the partitions it says it has, for the assignors that keep them.
        generation_id: the generation in which it was given those; None where it does not say.
        group_instance_id: of a static member.
    """

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    group_instance_id: str | None = None


# Member id to what it is given, in the order in which the assignor gives it.
Assignment = dict[str, list[TopicPartition]]

# Topic to its number of partitions. Topics that are missing do not exist: nobody gets anything.
PartitionCounts = Mapping[str, int]

Assignor = Callable[[PartitionCounts, Sequence[MemberSubscription]], Assignment]


def in_member_order(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    """Static members first, by instance id; then the others by member id (Kafka's MemberInfo)."""
    return sorted(
        members,
        key=lambda member: (
            member.group_instance_id is None,
            utf16(member.group_instance_id or member.member_id),
        ),
    )


def utf16(text: str) -> bytes:
    """What Java compares strings by: their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def partitions_of(topic: str, counts: PartitionCounts) -> list[TopicPartition]:
    """Every partition of a topic, in order."""
    return [TopicPartition(topic, index) for index in range(counts.get(topic, 0))]


def subscribed_topics(counts: PartitionCounts, members: Iterable[MemberSubscription]) -> list[str]:
    """The topics that exist and have a subscriber, in Java's order of strings."""
    topics = {topic for member in members for topic in member.topics}
    return sorted((topic for topic in topics if counts.get(topic, 0) > 0), key=utf16)
