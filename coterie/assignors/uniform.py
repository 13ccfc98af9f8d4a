"""`uniform`: the coordinator's assignor of KIP-848, balanced over all topics and sticky.

If all members subscribe to the same topics, each keeps its partitions up to its quota, and the
remaining ones fill the members below their quota in order. Otherwise `uniform_mixed.py` balances
topic by topic.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic

from coterie.assignors.java_order import (
    ids_in_map_order,
    ids_in_set_order,
    in_map_order,
    numbers_in_set_order,
    signed_halves,
)
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    subscribed_topics,
    utf16,
)
from coterie.assignors.shares import (
    STEP_WORK,
    Run,
    Shares,
    Subscriber,
    T,
    Work,
    assigned,
    no_shares,
    subscriber,
)
from coterie.assignors.uniform_mixed import share_mixed

# What it takes to put a topic into Java's order, beside looking at a partition.
_ORDERING_WORK = 4


def assign_uniform(counts: PartitionCounts, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as Kafka's UniformAssignor does [assignors/uniform].

    Topics are ordered by name here; Kafka orders them by their ids, which are random.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    existing = {topic: counts[topic] for topic in subscribed_topics(counts, ordered)}
    subscribers = [subscriber(member) for member in ordered]
    shares = no_shares(ordered)
    if len({frozenset(member.topics) for member in ordered}) > 1:
        return assigned(shares, share_mixed(existing, subscribers, shares, utf16))
    return assigned(shares, _share_same(existing, subscribers, shares, _as_given))


def share_uniform(
    counts: Mapping[str, int],
    topic_ids: Mapping[str, bytes],
    members: Iterable[Subscriber[bytes]],
    shares: Shares[bytes],
    *,
    homogeneous: bool,
) -> Work:
    """Fill shares as the coordinator does, which knows the ids of topics [assignors/uniform].

    Args:
        counts: the partitions of the topics that exist and have a subscriber.
        topic_ids: the id of each of these topics.
        members: the members, with the target that they had as what they own.
        shares: of each member.
        homogeneous: whether all of them subscribe to the same.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_map_order(by_id)]
    yield len(ordered)
    names = in_map_order(counts)
    yield _ORDERING_WORK * len(names)
    in_order = ids_in_set_order(topic_ids[name] for name in names)
    yield _ORDERING_WORK * len(names)
    by_topic_id = {topic_ids[name]: count for name, count in counts.items()}
    existing = {topic_id: by_topic_id[topic_id] for topic_id in in_order}
    if homogeneous:
        yield from _share_same(existing, ordered, shares, _in_java_order)
    else:
        yield from share_mixed(existing, ordered, shares, signed_halves)


def _as_given(owned: Mapping[T, Sequence[int]]) -> list[Run[T]]:
    return list(owned.items())


def _in_java_order(owned: Mapping[bytes, Sequence[int]]) -> list[Run[bytes]]:
    return [
        (topic_id, numbers_in_set_order(owned[topic_id])) for topic_id in ids_in_map_order(owned)
    ]


class _Left(Generic[T]):
    """The partitions that nobody keeps, in the order in which they are given."""

    def __init__(self) -> None:
        self._runs: list[Run[T]] = []
        self._at = self._start = 0

    def add(self, topic: T, indexes: Sequence[int]) -> None:
        if indexes:
            self._runs.append((topic, indexes))

    def take(self, count: int) -> list[Run[T]]:
        """Return the next partitions: so many, or all that are left."""
        taken: list[Run[T]] = []
        while count > 0 and self._at < len(self._runs):
            topic, indexes = self._runs[self._at]
            part = indexes[self._start : self._start + count]
            taken.append((topic, part))
            count -= len(part)
            self._start += len(part)
            if self._start >= len(indexes):
                self._at, self._start = self._at + 1, 0
        return taken


def _share_same(
    counts: Mapping[T, int],
    members: Sequence[Subscriber[T]],
    shares: Shares[T],
    in_order: Callable[[Mapping[T, Sequence[int]]], list[Run[T]]],
) -> Work:
    """Fill the shares of members that subscribe to the same.

    Args:
        counts: the partitions of each topic, in the order in which they are given.
        members: the members in order.
        shares: of each member.
        in_order: returns what a member owns in the order in which it is kept.
    """
    if not counts:
        return
    left: _Left[T] = _Left()
    taken: dict[T, set[int]] = {topic: set() for topic in counts}
    done = 0
    for member in members:
        for topic, indexes in member.owned.items():
            if topic in taken:
                taken[topic].update(indexes)
        done += len(member.owned)
        if done >= STEP_WORK:
            yield done
            done = 0
    for topic, count in counts.items():
        owned = taken[topic]
        every = range(count)
        left.add(topic, [index for index in every if index not in owned] if owned else every)
        yield count
    floor, larger = divmod(sum(counts.values()), len(members))
    below_quota: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_larger = larger > 0
        quota = floor + has_larger
        has = member.owned
        if not has.keys() <= counts.keys():
            has = {topic: indexes for topic, indexes in has.items() if topic in counts}
        size = sum(map(len, has.values()))
        # The order matters only where something is taken away.
        shares[member.member_id] = (
            list(has.items()) if size <= quota else _kept(in_order(has), quota, left)
        )
        quota -= min(size, quota)
        if quota > 0 and has_larger and len(members) - index > larger:
            # Enough members come later to take the remaining larger quotas, perhaps because they
            # own so many partitions already; so this member takes the smaller one.
            quota -= 1
            has_larger = False
        if quota > 0:
            below_quota.append((member.member_id, quota))
        larger -= has_larger
        done += len(has) if size <= quota else size
        if done >= STEP_WORK:
            yield done
            done = 0
    for member_id, missing in below_quota:
        shares[member_id] += left.take(missing)
        done += 1
        if done >= STEP_WORK:
            yield done
            done = 0


def _kept(runs: list[Run[T]], quota: int, left: _Left[T]) -> list[Run[T]]:
    """Return the first partitions of a member, and leave the others."""
    kept: list[Run[T]] = []
    for topic, indexes in runs:
        if len(indexes) <= quota:
            kept.append((topic, indexes))
        else:
            if quota:
                kept.append((topic, indexes[:quota]))
            left.add(topic, indexes[quota:])
        quota -= min(quota, len(indexes))
    return kept
