"""`sticky`: a balanced assignment that moves as few partitions as possible (KIP-54).

If all members subscribe to the same topics, each has a quota and keeps its partitions up to it
(`sticky_equal.py`, KAFKA-9987). Otherwise partitions are moved one by one from members with many to
members with few (`sticky_general.py`).
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

# The generation of a member that names none: it is older than any other.
NO_GENERATION = -1


class StickyResult(NamedTuple):
    """An assignment, and the new owner of each partition that another member may still own.

    `transferred` is None from the general algorithm, which does not record it.
    """

    assignment: Assignment
    transferred: dict[TopicPartition, str] | None


class Claims(NamedTuple):
    """The partitions that members own by their claims: at most one owner for each partition.

    Attributes:
        owned: the partitions of each member, in Java's order of the members, of existing topics.
        disputed: partitions that two members of the same generation claim; neither keeps them.
        max_generation: the newest generation that a member names.
    """

    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]
    max_generation: int


def assign_sticky(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as Kafka's StickyAssignor does [assignors/sticky]."""
    return assign_and_compare(counts, members).assignment


def assign_and_compare(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> StickyResult:
    """Return the sticky assignment and the transferred partitions."""
    existing = {topic: counts[topic] for topic in subscribed_topics(counts, members)}
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    claims = _resolve_claims(existing, ordered)
    if members and _all_equal(ordered):
        assignment, transferred = assign_equal(existing, claims.owned, claims.disputed)
        return StickyResult(assignment, transferred)
    assignment = assign_general(existing, ordered, claims.owned, claims.max_generation)
    return StickyResult(assignment, None)


def _all_equal(ordered: Sequence[MemberSubscription]) -> bool:
    """Return whether all members subscribe to the same topics.

    As in Kafka, members without topics that come first are ignored.
    """
    subscriptions = [frozenset(member.topics) for member in ordered]
    while len(subscriptions) > 1 and not subscriptions[0]:
        del subscriptions[0]
    return len(set(subscriptions)) <= 1


def _resolve_claims(counts: PartitionCounts, ordered: Sequence[MemberSubscription]) -> Claims:
    """Decide on an owner of each claimed partition [assignors/sticky]."""
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
