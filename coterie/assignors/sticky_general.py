"""The sticky algorithm for members with different subscriptions [assignors/sticky].

Members keep the partitions that they own and may keep. Each remaining partition goes to its
subscriber with the fewest partitions. Then partitions move one at a time from members with many to
members with few, until no move helps; if the sum of all differences is not better than before, the
moves are undone. Where a move goes against an earlier move of the same topic between the same two
members, a partition that moved then goes back instead, so that two partitions are not merely
exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coterie.assignors.java_order import PartitionSet
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    utf16,
)


def assign_general(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    owned: Assignment,
    max_generation: int,
) -> Assignment:
    """Assign by moving partitions.

    Args:
        counts: the partitions of each existing topic.
        members: the members, in Java's order of their ids.
        owned: the partitions of each member by its claims; it becomes the result.
        max_generation: the newest generation that a member names; members that name an older one
            are previous owners of what they claim.
    """
    return _Balance(counts, members, owned, max_generation).result()


class _Move(NamedTuple):
    """The owner of a partition before all moves, and its owner now."""

    source: str
    target: str


class _Movements:
    """All moves so far: of each partition, and by topic the partitions of each move."""

    def __init__(self) -> None:
        self._moves: dict[TopicPartition, _Move] = {}
        self._moved: dict[tuple[str, _Move], PartitionSet] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._moves.pop(partition, None)
        if earlier is not None:
            key = (partition.topic, earlier)
            self._moved[key].remove(partition)
            if not self._moved[key]:
                del self._moved[key]
            source = earlier.source
            if source == target:
                return
        move = self._moves[partition] = _Move(source, target)
        self._moved.setdefault((partition.topic, move), PartitionSet()).add(partition)

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move: another one if this move goes against an earlier move."""
        earlier = self._moves.get(partition)
        if earlier is not None:
            source = earlier.source
        moved = self._moved.get((partition.topic, _Move(target, source)))
        return partition if moved is None else moved.first()


class _Balance:
    def __init__(
        self,
        counts: PartitionCounts,
        members: Sequence[MemberSubscription],
        owned: Assignment,
        max_generation: int,
    ) -> None:
        self.counts = counts
        self.topics = {
            member.member_id: [topic for topic in member.topics if topic in counts]
            for member in members
        }
        self.subscribers: dict[str, list[str]] = {topic: [] for topic in counts}
        for member_id, topics in self.topics.items():
            for topic in topics:
                self.subscribers[topic].append(member_id)
        self.current = owned
        self.owners = {
            partition: member_id for member_id, given in owned.items() for partition in given
        }
        # The members whose assignment may still change.
        self.movable: set[str] = set(owned)
        self.movements = _Movements()
        self.previous = _previous_owners(members, max_generation)

    def result(self) -> Assignment:
        everything = [
            partition
            for topic in sorted(
                self.counts, key=lambda topic: (len(self.subscribers[topic]), utf16(topic))
            )
            for partition in partitions_of(topic, self.counts)
        ]
        revoked = self._remove_unsubscribed()
        kept = {partition for given in self.current.values() for partition in given}
        left = [partition for partition in everything if partition not in kept]
        initializing = not any(self.current.values())
        for partition in left:
            self._give(partition)
        shared = {topic for topic, ids in self.subscribers.items() if len(ids) > 1}
        self.movable -= {member_id for member_id in self.topics if self._is_fixed(member_id)}
        before = {member_id: list(self.current[member_id]) for member_id in self.movable}
        if not revoked:
            self._move_all([each for each in left if each.topic in shared])
        if self._move_all([each for each in everything if each.topic in shared]) and (
            not initializing and self._imbalance(self.current) >= self._imbalance(before)
        ):
            self.current.update(before)
        return self.current

    def _remove_unsubscribed(self) -> bool:
        """Remove partitions of topics that members no longer subscribe to; return whether there
        were any.
        """
        revoked = False
        for member_id, given in self.current.items():
            kept = [each for each in given if each.topic in self.topics[member_id]]
            revoked = revoked or len(kept) < len(given)
            self.current[member_id] = kept
        return revoked

    def _by_load(self, member_ids: Iterable[str]) -> list[str]:
        return sorted(
            member_ids, key=lambda member_id: (len(self.current[member_id]), utf16(member_id))
        )

    def _give(self, partition: TopicPartition) -> None:
        subscribers = self._by_load(self.subscribers[partition.topic])
        if subscribers:
            fewest = subscribers[0]
            self.current[fewest].append(partition)
            self.owners[partition] = fewest

    def _most(self, member_id: str) -> int:
        """Return the number of partitions that a member could have at most."""
        return sum(self.counts[topic] for topic in self.topics[member_id])

    def _is_fixed(self, member_id: str) -> bool:
        """Return whether a member has all it can get, and no other member can get any of it."""
        given = self.current[member_id]
        return len(given) >= self._most(member_id) and not any(
            len(self.subscribers[each.topic]) > 1 for each in given
        )

    def _is_balanced(self) -> bool:
        """Return whether no member could take a partition from one that has two more."""
        if not self.movable:
            return True
        sizes = {member_id: len(self.current[member_id]) for member_id in self.movable}
        if min(sizes.values()) >= max(sizes.values()) - 1:
            return True
        for member_id, size in sizes.items():
            if size == self._most(member_id):
                continue
            for topic in self.topics[member_id]:
                for partition in partitions_of(topic, self.counts):
                    owner = self.owners[partition]
                    if owner != member_id and size + 1 < len(self.current[owner]):
                        return False
        return True

    def _move_all(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions while that improves the balance; return whether any was moved."""
        moved = False
        while True:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    modified = moved = True
            if not modified:
                return moved

    def _better_owner(self, partition: TopicPartition) -> str | None:
        size = len(self.current[self.owners[partition]])
        subscribers = self.subscribers[partition.topic]
        previous = self.previous.get(partition)
        # Kafka does not check whether the previous owner still subscribes to the topic, and could
        # assign it a partition that it cannot read.
        if previous in subscribers and size > len(self.current[previous]) + 1:
            return previous
        if any(size > len(self.current[other]) + 1 for other in subscribers):
            return self._by_load(self.movable.intersection(subscribers))[0]
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        source = self.owners[partition]
        partition = self.movements.instead_of(partition, source, target)
        source = self.owners[partition]
        self.movements.move(partition, source, target)
        self.current[source].remove(partition)
        self.current[target].append(partition)
        self.owners[partition] = target

    def _imbalance(self, assignment: Assignment) -> int:
        """Return the sum of the differences between all pairs of movable members."""
        sizes = [len(assignment[member_id]) for member_id in self.movable]
        return sum(
            abs(size - other) for index, size in enumerate(sizes) for other in sizes[index + 1 :]
        )


class _Claim(NamedTuple):
    member_id: str
    generation: int


def _previous_owners(
    members: Sequence[MemberSubscription], max_generation: int
) -> dict[TopicPartition, str]:
    """Return the previous owner of partitions, by the newest claims of older generations."""
    found: dict[TopicPartition, _Claim] = {}
    for member in members:
        generation = -1 if member.generation_id is None else member.generation_id
        if generation >= max_generation:
            continue
        for partition in member.owned:
            known = found.get(partition)
            if known is None or generation > known.generation:
                found[partition] = _Claim(member.member_id, generation)
    return {partition: claim.member_id for partition, claim in found.items()}
