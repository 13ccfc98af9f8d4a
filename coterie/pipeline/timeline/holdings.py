"""The owners of a group's partitions over time, and the times without owner.

The changes must be applied in order of time. The times without owner follow
[pipeline/unowned-time].
"""

from collections.abc import Iterable, Mapping

from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.assignors.sticky import assign_sticky
from coterie.pipeline.timeline.model import Generation, Ownership, PartitionMove

# The second half of a cooperative rebalance usually follows the first immediately. A member that is
# busy may take as long as its rebalance timeout, five minutes by default
# [pipeline/logical-rebalance].
SECOND_HALF_WITHIN_MS = 300_000
# Connect assigns the tasks of a worker that left after a delay, which is a rebalance of its own.
_CONSUMER = "consumer"


class Holdings:
    """The owners of a group's partitions."""

    def __init__(self, group_id: str) -> None:
        """Begin without owners."""
        self.owners: dict[TopicPartition, str] = {}
        self.intervals: list[Ownership] = []
        self._group_id = group_id
        self._since: dict[TopicPartition, tuple[int, int]] = {}
        self._lost_ms: dict[TopicPartition, int] = {}

    def lose(self, partition: TopicPartition, at_ms: int) -> None:
        """End the ownership of a partition, if it has an owner."""
        owner = self.owners.pop(partition, None)
        if owner is None:
            return
        from_ms, generation = self._since.pop(partition)
        # Clocks and rounding can put the end before the beginning.
        at_ms = max(at_ms, from_ms)
        self.intervals.append(
            Ownership(self._group_id, *partition, owner, generation, from_ms, at_ms)
        )
        self._lost_ms[partition] = at_ms

    def lose_all(self, member_key: str, at_ms: int) -> None:
        """End the ownership of all partitions of a member."""
        for partition in [each for each, owner in self.owners.items() if owner == member_key]:
            self.lose(partition, at_ms)

    def gain(
        self, generation: Generation, started_ms: int | None
    ) -> dict[TopicPartition, int | None]:
        """Apply the assignment of a generation.

        Args:
            generation: the completed generation.
            started_ms: since when partitions that never had an owner count as without owner.

        Returns:
            For each partition with a new owner how long it had none; None if that is unknown.
        """
        gaps: dict[TopicPartition, int | None] = {}
        at_ms = generation.completed_ms
        after = generation.owners
        for partition, owner in list(self.owners.items()):
            if after.get(partition) != owner:
                self.lose(partition, at_ms)
        for partition, owner in after.items():
            if self.owners.get(partition) != owner:
                gaps[partition] = self.take(
                    partition, owner, generation.generation, at_ms, started_ms
                )
        return gaps

    def take(
        self,
        partition: TopicPartition,
        member_key: str,
        generation: int,
        at_ms: int,
        started_ms: int | None,
    ) -> int | None:
        """Make a member the owner of a partition; the ownership of another member ends.

        Args:
            partition: the partition.
            member_key: the new owner.
            generation: the generation that assigns it.
            at_ms: the time.
            started_ms: since when the partition counts as without owner if it never had one.

        Returns:
            How long it had no owner; None if that is unknown.
        """
        self.lose(partition, at_ms)
        lost_ms = self._lost_ms.pop(partition, started_ms)
        self.owners[partition] = member_key
        self._since[partition] = (at_ms, generation)
        return None if lost_ms is None else max(0, at_ms - lost_ms)

    def lose_everything(self, at_ms: int) -> None:
        """End the ownership of all partitions, because the group is empty or was removed."""
        for partition in list(self.owners):
            self.lose(partition, at_ms)
        self.forget_lost()

    def forget_lost(self) -> None:
        """Stop counting times without owner: the group is empty, or does not read the topics."""
        self._lost_ms.clear()

    def open_intervals(self) -> list[Ownership]:
        """Return the ownership that has not ended."""
        return [
            Ownership(
                self._group_id,
                *partition,
                owner,
                self._since[partition][1],
                self._since[partition][0],
                None,
            )
            for partition, owner in self.owners.items()
        ]


def moved_partitions(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> list[TopicPartition]:
    """Return the partitions that had an owner and have another one."""
    return sorted(
        partition
        for partition, owner in before.items()
        if partition in after and after[partition] != owner
    )


def partition_moves(
    group_id: str,
    generations: tuple[int | None, int | None],
    before: Mapping[TopicPartition, str],
    after: Mapping[TopicPartition, str],
    gaps: Mapping[TopicPartition, int | None],
    at_ms: int,
) -> list[PartitionMove]:
    """Return the moves of a rebalance.

    Args:
        group_id: the group.
        generations: the generation before and the generation after.
        before, after: the owners.
        gaps: the partitions that got an owner, with the time for which they had none.
        at_ms: when the rebalance ended.
    """
    return [
        PartitionMove(
            group_id,
            *partition,
            *generations,
            before.get(partition),
            after[partition],
            at_ms,
            gap_ms,
        )
        for partition, gap_ms in sorted(gaps.items())
        if partition in after and before.get(partition) != after[partition]
    ]


def fewest_moves(before: Mapping[TopicPartition, str], generation: Generation) -> int | None:
    """Return how many partitions a balanced assignment moves [pipeline/moved-without-need].

    Args:
        before: the owners before.
        generation: the members after.

    Returns:
        The number of moves of the sticky assignor, or of those that were made if these are fewer;
        None if a subscription is unknown.
    """
    if any(member.topics is None for member in generation.members):
        return None
    counts: dict[str, int] = {}
    for topic, index in _partitions(before, generation):
        counts[topic] = max(counts.get(topic, 0), index + 1)
    owned: dict[str, list[TopicPartition]] = {}
    for partition, owner in before.items():
        owned.setdefault(owner, []).append(partition)
    members = [
        MemberSubscription(
            member.key, member.topics or (), tuple(sorted(owned.get(member.key, ()))), 0
        )
        for member in generation.members
    ]
    after = {
        partition: owner
        for owner, given in assign_sticky(counts, members).items()
        for partition in given
    }
    # An assignor that moves fewer leaves the group unbalanced. None of its moves is without need.
    made = len(moved_partitions(before, generation.owners))
    return min(len(moved_partitions(before, after)), made)


def is_handover_open(before: Mapping[TopicPartition, str], generation: Generation) -> bool:
    """Return whether a cooperative generation leaves partitions without an owner.

    The rebalance goes on until they are assigned [pipeline/logical-rebalance].

    Args:
        before: the owners before the rebalance.
        generation: its last generation.
    """
    if generation.protocol_type != _CONSUMER or not generation.is_cooperative:
        return False
    topics = {topic for member in generation.members for topic in member.topics or ()}
    return any(each.topic in topics for each in before.keys() - generation.owners.keys())


def _partitions(
    before: Mapping[TopicPartition, str], generation: Generation
) -> Iterable[TopicPartition]:
    """Return the known partitions of the topics to which a member still subscribes."""
    topics = {topic for member in generation.members for topic in member.topics or ()}
    return [each for each in {*before, *generation.owners} if each.topic in topics]
