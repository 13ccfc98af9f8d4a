"""Kafka's assignor of share groups: each partition is read by as many members as are needed.

With P partitions and M members a partition has ceil(M / P) readers, and each member its part of
these shares [assignors/simple]. Members keep what they have as far as that allows.

If all members subscribe to the same, one round hands out the partitions of all topics. Otherwise
each topic has a round of its own, and nothing is balanced across topics.

Large groups take long, so the work is done in steps (shares.py).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from math import ceil
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from coterie.assignors.java_order import (
    Hashed,
    bucket,
    ids_in_map_order,
    in_map_order,
    in_order_of_hashes,
    numbers_in_set_order,
    table_size,
    topic_id_hash,
)
from coterie.assignors.shares import STEP_WORK, Work

# The partitions of each topic id.
Partitions = Mapping[bytes, Collection[int]]
# The partitions of each member, by topic id.
MemberShares = dict[str, dict[bytes, set[int]]]
_Shares = list[dict[bytes, set[int]]]
_K = TypeVar("_K", bound=Hashable)
# A partition of any topic.
_Place = tuple[bytes, int]


class Reader(NamedTuple):
    """A member as the assignor sees it.

    Attributes:
        topics: the ids of the topics to which it subscribes and that exist.
        before: its part of the target before this one.
    """

    topics: Collection[bytes]
    before: Partitions


def share_simple(
    readers: Mapping[str, Reader],
    assignable: Mapping[bytes, Sequence[int]],
    shares: MemberShares,
    *,
    homogeneous: bool,
) -> Work:
    """Assign partitions in steps.

    Args:
        readers: the members by their ids, in the order in which Kafka's group has them.
        assignable: the partitions of each topic that may be assigned, in ascending order.
        shares: receives the partitions of each member.
        homogeneous: whether all members subscribe to the same topics.
    """
    ids = in_map_order(readers)
    ordered = [readers[member_id] for member_id in ids]
    for member_id in ids:
        before = readers[member_id].before
        shares[member_id] = {topic: set(each) for topic, each in before.items()}
        yield 1 + sum(map(len, before.values()))
    found = [shares[member_id] for member_id in ids]
    topics = ids_in_map_order(topic for each in ordered for topic in each.topics)
    if not topics:
        # As in Kafka, nobody has anything then.
        for share in found:
            share.clear()
    elif homogeneous:
        yield from _share_all(ordered, assignable, found)
    else:
        for topic in topics:
            yield from _share_topic(ordered, topic, assignable.get(topic, ()), found)


def _share_all(
    readers: Sequence[Reader], assignable: Mapping[bytes, Sequence[int]], shares: _Shares
) -> Work:
    topics = list(dict.fromkeys(readers[0].topics))
    subscribed = frozenset(topics)
    target = [(topic, index) for topic in topics for index in assignable.get(topic, ())]
    held: dict[int, list[_Place]] = {}
    for number, share in enumerate(shares):
        for topic in [each for each in share if each not in subscribed]:
            del share[topic]
        places = [
            (topic, index)
            for topic in ids_in_map_order(share)
            for index in numbers_in_set_order(share[topic])
        ]
        if places:
            held[number] = places
            yield len(places)
    handing = _Round(range(len(readers)), target, held, _hash_of_place)
    yield from handing.steps()
    for number, kept in handing.of_member.items():
        share = shares[number]
        # As in Kafka, a topic stays of which a member has lost everything.
        for before in share.values():
            before.clear()
        for topic, index in kept:
            share.setdefault(topic, set()).add(index)
        yield len(kept)


def _share_topic(
    readers: Sequence[Reader], topic: bytes, target: Sequence[int], shares: _Shares
) -> Work:
    subscribers = [number for number, each in enumerate(readers) if topic in each.topics]
    held = {
        number: numbers_in_set_order(share[topic])
        for number, share in enumerate(shares)
        if share.get(topic)
    }
    handing = _Round(subscribers, target, held, int)
    yield from handing.steps()
    for number, indexes in handing.of_member.items():
        shares[number][topic] = set(indexes)
        yield len(indexes)


def _hash_of_place(place: _Place) -> int:
    topic, index = place
    return 31 * topic_id_hash(topic) + index


class _Round(Generic[_K]):
    """The partitions of a topic, or of all topics, are handed out.

    Each step is one of Kafka's, with its order: members by their numbers, partitions as its tables
    of hashes have them.

    Attributes:
        of_member: by the number of a member, what it has; of those that have or had something.
    """

    def __init__(
        self,
        subscribers: Sequence[int],
        target: Sequence[_K],
        held: Mapping[int, Sequence[_K]],
        hash_of: Hashed[_K],
    ) -> None:
        """Begin with what members have.

        Args:
            subscribers: the numbers of the members that take part.
            target: the partitions.
            held: by the number of a member what it has, whether it subscribes or not.
            hash_of: Java's hash of a partition.
        """
        self._subscribers = subscribers
        self._target = target
        self._held = held
        self._hash_of = hash_of
        count = len(subscribers)
        self._sharing = -(-count // len(target)) if target else 0
        share = self._sharing * len(target) / count if count else 0.0
        self._desired = dict.fromkeys(held, 0)
        for at, number in enumerate(subscribers):
            self._desired[number] = ceil(share * (at + 1)) - ceil(share * at)
        self._of_partition: dict[_K, dict[int, None]] = {}
        self.of_member: dict[int, dict[_K, None]] = {}
        # The partitions in Kafka's order.
        self._ordered: list[_K] = []

    def steps(self) -> Work:
        """Hand the partitions out."""
        for number in sorted(self._held):
            self.of_member[number] = dict.fromkeys(self._held[number])
            for key in self._held[number]:
                self._of_partition.setdefault(key, {})[number] = None
            yield len(self._held[number])
        yield from self._take_from_overfilled()
        yield from self._take_from_overshared()
        for key in self._target:
            self._of_partition.setdefault(key, {})
        yield from self._hand_out()

    def _order(self) -> Work:
        """Put all partitions that somebody has or shall have into Kafka's order.

        Kafka adds them with computeIfAbsent, which puts a new key before the others of its bucket.
        """
        size = table_size(len(self._of_partition), len(self._target))
        keyed: list[tuple[int, _K]] = []
        for key in reversed(self._of_partition):
            keyed.append((bucket(self._hash_of(key), size), key))
            if len(keyed) % STEP_WORK == 0:
                yield STEP_WORK
        keyed.sort(key=itemgetter(0))
        self._ordered = [key for _, key in keyed]
        yield len(keyed) // 2

    def _take_from_overfilled(self) -> Work:
        for number in in_order_of_hashes(
            self.of_member, int, len(self.of_member), planned=len(self._subscribers)
        ):
            held = self.of_member[number]
            surplus = len(held) - self._desired[number]
            if surplus > 0:
                # A table of hashes never becomes smaller.
                most = len(self._held[number])
                for key in in_order_of_hashes(held, self._hash_of, most)[:surplus]:
                    self._move(key, number)
                yield most

    def _take_from_overshared(self) -> Work:
        yield from self._order()
        for key in self._ordered:
            holders = self._of_partition[key]
            surplus = len(holders) - self._sharing
            if surplus > 0:
                for number in in_order_of_hashes(holders, int, len(holders))[:surplus]:
                    self._move(key, number)
                yield surplus

    def _move(self, key: _K, number: int) -> None:
        del self.of_member[number][key]
        del self._of_partition[key][number]

    def _hand_out(self) -> Work:
        """Let members take turns; a turn ends for all when none of them has taken anything."""
        unfilled = [
            number
            for number in sorted(self._subscribers)
            if len(self.of_member.get(number, ())) < self._desired[number]
        ]
        if not unfilled:
            return
        yield from self._order()
        at, handed = 0, False
        for key in self._ordered:
            holders = self._of_partition[key]
            looked = 1
            while len(holders) < self._sharing:
                if at == len(unfilled):
                    if not handed or not unfilled:
                        break
                    at, handed = 0, False
                number = unfilled[at]
                at += 1
                looked += 1
                if number in holders:
                    continue
                holders[number] = None
                held = self.of_member.setdefault(number, {})
                held[key] = None
                handed = True
                if len(held) >= self._desired[number]:
                    at -= 1
                    del unfilled[at]
            if not unfilled:
                return
            yield looked
