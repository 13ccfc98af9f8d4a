"""The uniform assignor for members with different subscriptions [assignors/uniform].

Topic by topic, partitions move from the members with the most to those with the fewest. Topics with
many partitions for each subscriber come first. A pass over the topics may unbalance others, so
there are several passes, until one changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from coterie.assignors.shares import Shares, Subscriber, T, Work

# Kafka's limit: a pass about halves the imbalance, and few groups need more than two.
_MAX_PASSES = 16
_NO_OWNER = -1
# How many partitions of one topic are looked at in one step.
_AT_ONCE = 2_000
# What a topic takes beside its partitions and subscribers, compared with looking at one of them: to
# give its free partitions, and for anything else.
_GIVING_WORK = 60
_TOPIC_WORK = 4


def share_mixed(
    counts: Mapping[T, int],
    members: Sequence[Subscriber[T]],
    shares: Shares[T],
    topic_order: Callable[[T], Any],
) -> Work:
    """Fill shares as Kafka's UniformHeterogeneousAssignmentBuilder does.

    Args:
        counts: the partitions of each topic that exists and has a subscriber.
        members: the members, in the order that breaks ties.
        shares: of each member.
        topic_order: the key by which equal topics are sorted.
    """
    return _Mixed(counts, members, topic_order).share(shares)


class _Levels:
    """Selects the subscriber of a topic that gets the next partition, and the one that loses one.

    The members are sorted by their number of partitions. Those with the fewest are a range at the
    left, which grows to the right as they are filled; those with the most are a range at the right,
    which grows to the left. Members that own nothing of the topic leave the right range.
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        # They are in their order, which is that of equals.
        self._members = sorted(subscribers, key=sizes.__getitem__)
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


class _Mixed(Generic[T]):
    def __init__(
        self,
        counts: Mapping[T, int],
        members: Sequence[Subscriber[T]],
        topic_order: Callable[[T], Any],
    ) -> None:
        self._counts = counts
        self._members = members
        self._topic_order = topic_order
        self._subscribers: dict[T, list[int]] = {topic: [] for topic in counts}
        self._owners = {topic: [_NO_OWNER] * count for topic, count in counts.items()}
        self._sizes = [0] * len(members)
        # How many partitions were moved from one member to another.
        self._moves = 0

    def share(self, shares: Shares[T]) -> Work:
        """Fill the shares of the members."""
        yield from self._look()
        places = {}
        for topic in self._counts:
            places[topic] = self._place(topic)
            yield _TOPIC_WORK
        topics = sorted(self._counts, key=places.__getitem__)
        yield _TOPIC_WORK * len(topics)
        for topic in topics:
            yield from self._give_free(topic)
        yield from self._balance([each for each in topics if len(self._subscribers[each]) > 1])
        for topic, owners in self._owners.items():
            given: dict[int, list[int]] = {}
            for partition, owner in enumerate(owners):
                given.setdefault(owner, []).append(partition)
            for owner, indexes in given.items():
                shares[self._members[owner].member_id].append((topic, indexes))
            yield _TOPIC_WORK + len(owners)

    def _look(self) -> Work:
        """Look at what the members subscribe to and own."""
        counts, subscribers = self._counts, self._subscribers
        yield _TOPIC_WORK * len(counts)
        for at, member in enumerate(self._members):
            for topic in member.topics:
                if topic in counts:
                    subscribers[topic].append(at)
            size = 0
            for topic, indexes in member.owned.items():
                if topic in counts and topic in member.topics:
                    size += len(indexes)
                    owners = self._owners[topic]
                    for index in indexes:
                        owners[index] = at
            self._sizes[at] = size
            yield size + len(member.topics)

    def _place(self, topic: T) -> tuple[float, int, Any]:
        """Return the key of a topic in the order in which topics are shared."""
        count = len(self._subscribers[topic])
        return -self._counts[topic] / count, count, self._topic_order(topic)

    def _give_free(self, topic: T) -> Work:
        """Give the partitions of a topic that nobody owns."""
        owners, sizes = self._owners[topic], self._sizes
        left = [at for at, owner in enumerate(owners) if owner == _NO_OWNER]
        yield len(owners)
        if not left:
            return
        levels = _Levels(self._subscribers[topic], sizes)
        yield _GIVING_WORK + len(self._subscribers[topic])
        for done, partition in enumerate(left, 1):
            member = levels.fewest()
            owners[partition] = member
            sizes[member] += 1
            if not done % _AT_ONCE:
                yield _AT_ONCE

    def _balance(self, topics: list[T]) -> Work:
        last = None
        for _ in range(_MAX_PASSES):
            for topic in topics:
                if topic == last:
                    # A whole pass since the last change.
                    return
                moves = self._moves
                yield from self._balance_topic(topic)
                if self._moves != moves or last is None:
                    last = topic

    def _balance_topic(self, topic: T) -> Work:
        """Move partitions of one topic."""
        subscribers, owners, sizes = self._subscribers[topic], self._owners[topic], self._sizes
        yield len(subscribers)
        if not _is_unbalanced(subscribers, sizes):
            return
        levels = _Levels(subscribers, sizes)
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        yield len(owners)
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
            sizes[source] -= 1
            owners[partition] = target
            sizes[target] += 1
            self._moves += 1
            if not self._moves % _AT_ONCE:
                yield _AT_ONCE


def _is_unbalanced(subscribers: list[int], sizes: list[int]) -> bool:
    """Return whether a subscriber has at least two partitions more than another one."""
    having = [sizes[member] for member in subscribers]
    return max(having) - min(having) > 1
