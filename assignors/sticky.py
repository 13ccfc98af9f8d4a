"""`sticky`: as balanced as possible, and within that as little moved as possible (KIP-54).

Where all members subscribe to the same topics there is a quota each and the members keep what they
have up to it (`sticky_equal.py`, KIP-54's successor of KAFKA-9987). Otherwise partitions are moved
one by one from the members with many to those with few (`sticky_general.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.assignors.java_order import in_map_order
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    subscribed_topics,
)
from coterie.assignors.sticky_equal import assign_equal
from coterie.assignors.sticky_general import assign_general

# A member that names no generation was given its partitions before any that does.
NO_GENERATION = -1


class StickyResult(NamedTuple):
    """An assignment, and the partitions that somebody else must give up first.

    `transferred` is None where the general algorithm ran, which does not keep account of them.
    """

    assignment: Assignment
    transferred: dict[TopicPartition, str] | None


class Claims(NamedTuple):
    """What the members' claims come to: one owner a partition at most.

    Attributes:
        owned: by member, in Java's order of the members; without topics that are gone.
        disputed: claimed by two members in the same generation, so by none.
        max_generation: the newest generation that a member names.
    """

    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]
    max_generation: int


def assign_sticky(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Kafka's StickyAssignor."""
    return stick(counts, members).assignment


def stick(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> StickyResult:
    """The assignment, and what it takes from whom; `cooperative_sticky.py` needs both."""
    existing = {topic: counts[topic] for topic in subscribed_topics(counts, members)}
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    claims = _settle_claims(existing, ordered)
    if members and _all_equal(ordered):
        assignment, transferred = assign_equal(existing, claims.owned, claims.disputed)
        return StickyResult(assignment, transferred)
    assignment = assign_general(existing, ordered, claims.owned, claims.max_generation)
    return StickyResult(assignment, None)


def _all_equal(ordered: Sequence[MemberSubscription]) -> bool:
    """Whether all subscribe to the same; as in Kafka, members without topics that are met first
    don't count.
    """
    subscriptions = [frozenset(member.topics) for member in ordered]
    while len(subscriptions) > 1 and not subscriptions[0]:
        del subscriptions[0]
    return len(set(subscriptions)) <= 1


def _settle_claims(counts: PartitionCounts, ordered: Sequence[MemberSubscription]) -> Claims:
    """The newer generation wins; two claims of the same generation lose both."""
    owned: dict[str, list[TopicPartition]] = {}
    disputed: set[TopicPartition] = set()
    owners: dict[TopicPartition, str] = {}
    generations: dict[str, int] = {}
    for member in ordered:
        member_id = member.member_id
        generation = NO_GENERATION if member.generation_id is None else member.generation_id
        generations[member_id] = generation
        mine = owned[member_id] = []
        for partition in member.owned:
            if partition.topic not in counts:
                continue
            other = owners.get(partition)
            if other is not None and generation < generations[other]:
                continue
            if other is not None:
                if partition in owned[other]:
                    owned[other].remove(partition)
                if generation == generations[other]:
                    disputed.add(partition)
            if other is None or generation > generations[other]:
                mine.append(partition)
            owners[partition] = member_id
    newest = max(generations.values(), default=NO_GENERATION)
    return Claims(owned, disputed, newest)
