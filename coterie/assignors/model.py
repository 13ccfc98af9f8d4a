"""The input and the output of assignors, as plain values.

An assignment can therefore be computed for a live group as well as for one that was recorded years
ago. An assignor is a pure function of the partition counts and the subscriptions. Racks are not
part of a subscription [assignors/existing-topics].
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class MemberSubscription(NamedTuple):
    """A member from the point of view of the group's leader.

    Attributes:
        member_id: an id that is unique in the group.
        topics: the subscribed topics.
        owned: the partitions that the member claims to own, for the sticky assignors.
        generation_id: the generation in which it received them; None if it does not say.
        group_instance_id: the instance id of a static member.
    """

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    group_instance_id: str | None = None


# The partitions of each member id, in the order in which the assignor assigned them.
Assignment = dict[str, list[TopicPartition]]

# The number of partitions of each topic. Other topics do not exist [assignors/existing-topics].
PartitionCounts = Mapping[str, int]

Assignor = Callable[[PartitionCounts, Sequence[MemberSubscription]], Assignment]


class Identified(Protocol):
    """A member with its ids."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member."""


M = TypeVar("M", bound=Identified)


def in_member_order(members: Iterable[M]) -> list[M]:
    """Return static members by instance id, then others by member id [assignors/member-order]."""
    return sorted(
        members,
        key=lambda member: (
            member.group_instance_id is None,
            utf16(member.group_instance_id or member.member_id),
        ),
    )


def utf16(text: str) -> bytes:
    """Return the UTF-16 code units of a string, by which Java compares strings."""
    return text.encode("utf-16-be", "surrogatepass")


def partitions_of(topic: str, counts: PartitionCounts) -> list[TopicPartition]:
    """Return all partitions of a topic in order."""
    return [TopicPartition(topic, index) for index in range(counts.get(topic, 0))]


def subscribed_topics(counts: PartitionCounts, members: Iterable[MemberSubscription]) -> list[str]:
    """Return the topics that exist and have a subscriber, in Java's order of strings."""
    topics = {topic for member in members for topic in member.topics}
    return sorted((topic for topic in topics if counts.get(topic, 0) > 0), key=utf16)
