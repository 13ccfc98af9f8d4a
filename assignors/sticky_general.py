"""The sticky algorithm for members with different subscriptions: move one partition at a time.

What members have and may keep stays. The rest goes to the member with the fewest partitions that
may have it. Then partitions move from members with many to members with few until no move helps;
if the sum of all differences is no better than before the moves, they are taken back. A partition
that would move against an earlier move of the same topic between the same two is exchanged for one
that moved that way, so that nothing is swapped for nothing.
"""

from collections.abc import Iterable, Sequence

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
    """Balance by moves.

    Args:
        counts: the topics that exist.
        members: in Java's order of their ids.
        owned: what each has by the claims; becomes the result.
        max_generation: the newest that a member names; claims of older ones are remembered as the
            owners before.
    """
    return _Balance(counts, members, owned, max_generation).result()


class _Movements:
    """The moves so far: from whom to whom each partition came, and by topic which moved so."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], PartitionSet] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._pairs.pop(partition, None)
        if before is not None:
            key = (partition.topic, *before)
            self._moved[key].remove(partition)
            if not self._moved[key]:
                del self._moved[key]
            source = before[0]
            if source == target:
                return
        self._pairs[partition] = (source, target)
        moved = self._moved.setdefault((partition.topic, source, target), PartitionSet())
        moved.add(partition)

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move in place of one that would go against an earlier move."""
        before = self._pairs.get(partition)
        if before is not None:
            source = before[0]
        moved = self._moved.get((partition.topic, target, source))
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
        revoked = self._drop_what_is_not_subscribed()
        kept = {partition for given in self.current.values() for partition in given}
        left = [partition for partition in everything if partition not in kept]
        initializing = not any(self.current.values())
        for partition in left:
            self._give(partition)
        shared = {topic for topic, who in self.subscribers.items() if len(who) > 1}
        self.movable -= {member_id for member_id in self.topics if self._is_fixed(member_id)}
        before = {member_id: list(self.current[member_id]) for member_id in self.movable}
        if not revoked:
            self._move_all([each for each in left if each.topic in shared])
        if self._move_all([each for each in everything if each.topic in shared]) and (
            not initializing and self._imbalance(self.current) >= self._imbalance(before)
        ):
            self.current.update(before)
        return self.current

    def _drop_what_is_not_subscribed(self) -> bool:
        """Take from members what they no longer subscribe to; whether there was any."""
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
        takers = self._by_load(self.subscribers[partition.topic])
        if takers:
            self.current[takers[0]].append(partition)
            self.owners[partition] = takers[0]

    def _most(self, member_id: str) -> int:
        """The most partitions that a member could have."""
        return sum(self.counts[topic] for topic in self.topics[member_id])

    def _is_fixed(self, member_id: str) -> bool:
        """Whether a member has all it can get and nothing of it can be anybody else's."""
        given = self.current[member_id]
        return len(given) >= self._most(member_id) and not any(
            len(self.subscribers[each.topic]) > 1 for each in given
        )

    def _is_balanced(self) -> bool:
        """Whether no member could take a partition from one that has two more."""
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
        """Move what improves the balance until nothing does; whether anything was moved."""
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
        # Kafka does not ask whether the owner before still subscribes, and would give it what it
        # can't read.
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
        """The differences between all pairs of movable members, summed up."""
        sizes = [len(assignment[member_id]) for member_id in self.movable]
        return sum(
            abs(size - other) for index, size in enumerate(sizes) for other in sizes[index + 1 :]
        )


def _previous_owners(
    members: Sequence[MemberSubscription], max_generation: int
) -> dict[TopicPartition, str]:
    """Who had a partition before its owner, by the claims of older generations."""
    found: dict[TopicPartition, tuple[str, int]] = {}
    for member in members:
        generation = -1 if member.generation_id is None else member.generation_id
        if generation >= max_generation:
            continue
        for partition in member.owned:
            known = found.get(partition)
            if known is None or generation > known[1]:
                found[partition] = (member.member_id, generation)
    return {partition: member_id for partition, (member_id, _) in found.items()}
