"""Who holds which partition over time, and for how long nobody did.

Fed in order of time: a partition is lost by its owner, gained by another, or kept. A rebalance asks
at its end for the gaps that were closed since it began.
"""

from collections.abc import Iterable, Mapping

from coterie.assignors import MemberSubscription, TopicPartition, assign_sticky
from coterie.pipeline.timeline.model import Generation, Ownership


class Holdings:
    """The owners of a group's partitions."""

    def __init__(self, group_id: str) -> None:
        """Nobody has anything yet."""
        self.owners: dict[TopicPartition, str] = {}
        self.intervals: list[Ownership] = []
        self._group_id = group_id
        self._since: dict[TopicPartition, tuple[int, int]] = {}
        self._lost_ms: dict[TopicPartition, int] = {}

    def lose(self, partition: TopicPartition, at_ms: int) -> None:
        """Its owner has it no more; nothing where nobody has it."""
        owner = self.owners.pop(partition, None)
        if owner is None:
            return
        from_ms, generation = self._since.pop(partition)
        # A generation that is completed earlier than a member says it rejoined can't be.
        at_ms = max(at_ms, from_ms)
        self.intervals.append(
            Ownership(self._group_id, *partition, owner, generation, from_ms, at_ms)
        )
        self._lost_ms[partition] = at_ms

    def lose_all(self, member_key: str, at_ms: int) -> None:
        """A member has nothing any more."""
        for partition in [each for each, owner in self.owners.items() if owner == member_key]:
            self.lose(partition, at_ms)

    def gain(
        self, generation: Generation, started_ms: int | None
    ) -> dict[TopicPartition, int | None]:
        """Everybody has what the generation gives them.

        Args:
            generation: the completed one.
            started_ms: since when partitions that never had an owner are waited for.

        Returns:
            For each partition that was gained now: how long it had no owner, None where that is
            not known.
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
        """A member has a partition from now on; how long nobody had it, None where not known.

        Args:
            partition: which; nobody has it, or its owner loses it now.
            member_key: whose it is.
            generation: in which it was given.
            at_ms: now.
            started_ms: since when it is waited for if it never had an owner.
        """
        self.lose(partition, at_ms)
        lost_ms = self._lost_ms.pop(partition, started_ms)
        self.owners[partition] = member_key
        self._since[partition] = (at_ms, generation)
        return None if lost_ms is None else max(0, at_ms - lost_ms)

    def forget_lost(self) -> None:
        """Nobody waits for what has no owner: the group is empty, or reads it no more."""
        self._lost_ms.clear()

    def open_intervals(self) -> list[Ownership]:
        """What is still held."""
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
    """The partitions that had an owner and have another one."""
    return sorted(
        partition
        for partition, owner in before.items()
        if partition in after and after[partition] != owner
    )


def fewest_moves(before: Mapping[TopicPartition, str], generation: Generation) -> int | None:
    """How many partitions had to move for a balanced assignment to these members.

    The sticky assignor is asked what it would have done with what everybody had. With different
    subscriptions that is a good assignment and not provably the best one.

    Returns:
        None where the members do not say what they subscribe to.
    """
    if any(member.topics is None for member in generation.members):
        return None
    counts: dict[str, int] = {}
    for topic, index in _known(before, generation):
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
    return len(moved_partitions(before, after))


def _known(
    before: Mapping[TopicPartition, str], generation: Generation
) -> Iterable[TopicPartition]:
    """The partitions there are: of the topics that somebody still subscribes to."""
    topics = {topic for member in generation.members for topic in member.topics or ()}
    return [each for each in {*before, *generation.owners} if each.topic in topics]
