"""The uniform assignor for members with different subscriptions [assignors/uniform-mixed].

Topic by topic, partitions move from the members with the most to those with the fewest. Topics with
many partitions for each subscriber come first. A pass over the topics may unbalance others, so
there are several passes, until one changes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    utf16,
)

# Kafka's limit: a pass about halves the imbalance, and few groups need more than two.
_MAX_PASSES = 16
_NO_OWNER = -1


def assign_mixed(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    topic_order: Callable[[str], Any] = utf16,
) -> Assignment:
    """Assign as Kafka's UniformHeterogeneousAssignmentBuilder does.

    Args:
        counts: the partitions of each topic that exists and has a subscriber.
        members: the members, in the order that breaks ties.
        topic_order: the key by which equal topics are sorted.
    """
    return _Mixed(counts, members, topic_order).result()


class _Levels:
    """Selects the subscriber of a topic that gets the next partition, and the one that loses one.

    The members are sorted by their number of partitions. Those with the fewest are a range at the
    left, which grows to the right as they are filled; those with the most are a range at the right,
    which grows to the left. Members that own nothing of the topic leave the right range.
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._members = sorted(subscribers, key=lambda member: (sizes[member], member))
        self.spread = sizes[self._members[-1]] - sizes[self._members[0]]
        self._low_end = 0
        self._low = sizes[self._members[0]] - 1
        self._next_low = 0
        self._high_start = self._high_end = len(self._members)
        self._high = sizes[self._members[-1]] + 1
        self._next_high = len(self._members) - 1

    @property
    def balanced(self) -> bool:
        return self._high - self._low <= 1

    def fewest(self) -> int:
        """Return the member that gets the next partition."""
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(self._members) and self._size(self._low_end) == self._low:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._members[self._next_low - 1]

    def most(self) -> int:
        """Return the member that loses the next partition, or _NO_OWNER."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high = self._size(self._high_start - 1)
            else:
                self._high -= 1
            while self._high_start > 0 and self._size(self._high_start - 1) == self._high:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return _NO_OWNER
        self._next_high -= 1
        return self._members[self._next_high + 1]

    def exclude_last(self) -> None:
        """Exclude the member that `most` returned last: it owns nothing of the topic."""
        last, end = self._next_high + 1, self._high_end - 1
        self._members[last], self._members[end] = self._members[end], self._members[last]
        self._high_end = end

    def _size(self, place: int) -> int:
        return self._sizes[self._members[place]]


class _Mixed:
    def __init__(
        self,
        counts: PartitionCounts,
        members: Sequence[MemberSubscription],
        topic_order: Callable[[str], Any],
    ) -> None:
        self.members = members
        self.subscribers: dict[str, list[int]] = {topic: [] for topic in counts}
        self.owners = {topic: [_NO_OWNER] * count for topic, count in counts.items()}
        self.sizes = [0] * len(members)
        for index, member in enumerate(members):
            for topic in dict.fromkeys(member.topics):
                if topic in counts:
                    self.subscribers[topic].append(index)
            for topic, partition in member.owned:
                if topic in counts and topic in member.topics:
                    self.sizes[index] += 1
                    self.owners[topic][partition] = index
        self.topics = sorted(
            counts,
            key=lambda topic: (
                -counts[topic] / len(self.subscribers[topic]),
                len(self.subscribers[topic]),
                topic_order(topic),
            ),
        )

    def result(self) -> Assignment:
        for topic in self.topics:
            left = [at for at, owner in enumerate(self.owners[topic]) if owner == _NO_OWNER]
            if left:
                levels = _Levels(self.subscribers[topic], self.sizes)
                for partition in left:
                    self._give(topic, partition, levels.fewest())
        self._balance([topic for topic in self.topics if len(self.subscribers[topic]) > 1])
        assignment: Assignment = {member.member_id: [] for member in self.members}
        for topic, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                given = assignment[self.members[owner].member_id]
                given.append(TopicPartition(topic, partition))
        return assignment

    def _balance(self, topics: list[str]) -> None:
        last = None
        for _ in range(_MAX_PASSES):
            for topic in topics:
                if topic == last:
                    # A whole pass since the last change.
                    return
                if self._balance_topic(topic) or last is None:
                    last = topic

    def _balance_topic(self, topic: str) -> int:
        """Move partitions of one topic; return how many."""
        levels = _Levels(self.subscribers[topic], self.sizes)
        if levels.spread <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not levels.balanced:
            source = levels.most()
            while source != _NO_OWNER and not owned.get(source):
                levels.exclude_last()
                source = levels.most()
            if source == _NO_OWNER:
                break
            partition = owned[source].pop()
            target = levels.fewest()
            if levels.balanced:
                break
            self._give(topic, partition, target)
            moved += 1
        return moved

    def _give(self, topic: str, partition: int, member: int) -> None:
        before = self.owners[topic][partition]
        if before != _NO_OWNER:
            self.sizes[before] -= 1
        self.owners[topic][partition] = member
        self.sizes[member] += 1
