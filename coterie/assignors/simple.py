"""Kafka's assignor of share groups: each partition is read by as many members as are needed.

With P partitions and M members a partition has ceil(M / P) readers, and each member its part of
these shares [assignors/simple]. Members keep what they have as far as that allows.

If all members subscribe to the same, one round hands out the partitions of all topics. Otherwise
each topic has a round of its own, and nothing is balanced across topics.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Generic, NamedTuple, TypeVar

from coterie.assignors.java_order import (
    Hashed,
    ids_in_map_order,
    in_map_order,
    in_order_of_hashes,
    numbers_in_set_order,
    topic_id_hash,
)

# The partitions of each topic id.
Partitions = Mapping[bytes, Collection[int]]
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


def assign_simple(
    readers: Mapping[str, Reader], assignable: Mapping[bytes, Sequence[int]], *, homogeneous: bool
) -> dict[str, dict[bytes, set[int]]]:
    """Return the partitions of each member.

    Args:
        readers: the members by their ids, in the order in which Kafka's group has them.
        assignable: the partitions of each topic that may be assigned, in ascending order.
        homogeneous: whether all members subscribe to the same topics.
    """
    ordered = [readers[member_id] for member_id in in_map_order(readers)]
    shares = [{topic: set(each) for topic, each in one.before.items()} for one in ordered]
    topics = ids_in_map_order(topic for each in ordered for topic in each.topics)
    if not topics:
        # As in Kafka, nobody has anything then.
        shares = [{} for _ in ordered]
    elif homogeneous:
        _share_all(ordered, assignable, shares)
    else:
        for topic in topics:
            _share_topic(ordered, topic, assignable.get(topic, ()), shares)
    of_member = dict(zip(in_map_order(readers), shares, strict=True))
    return {member_id: of_member[member_id] for member_id in readers}


def _share_all(
    readers: Sequence[Reader],
    assignable: Mapping[bytes, Sequence[int]],
    shares: list[dict[bytes, set[int]]],
) -> None:
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
    everyone = range(len(readers))
    for number, kept in _Round(everyone, target, held, _hash_of_place).result():
        share = shares[number]
        # As in Kafka, a topic stays of which a member has lost everything.
        for before in share.values():
            before.clear()
        for topic, index in kept:
            share.setdefault(topic, set()).add(index)


def _share_topic(
    readers: Sequence[Reader],
    topic: bytes,
    target: Sequence[int],
    shares: list[dict[bytes, set[int]]],
) -> None:
    subscribers = [number for number, each in enumerate(readers) if topic in each.topics]
    held = {
        number: numbers_in_set_order(share[topic])
        for number, share in enumerate(shares)
        if share.get(topic)
    }
    for number, indexes in _Round(subscribers, target, held, int).result():
        shares[number][topic] = set(indexes)


def _hash_of_place(place: _Place) -> int:
    topic, index = place
    return 31 * topic_id_hash(topic) + index


class _Round(Generic[_K]):
    """The partitions of a topic, or of all topics, are handed out.

    Each step is one of Kafka's, with its order: members by their numbers, partitions as its tables
    of hashes have them.
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
        self._hash_of = hash_of
        count = len(subscribers)
        self._sharing = -(-count // len(target)) if target else 0
        share = self._sharing * len(target) / count if count else 0.0
        self._desired = dict.fromkeys(held, 0)
        for at, number in enumerate(subscribers):
            self._desired[number] = ceil(share * (at + 1)) - ceil(share * at)
        self._of_partition: dict[_K, dict[int, None]] = {}
        self._of_member: dict[int, dict[_K, None]] = {}
        for number in sorted(held):
            self._of_member[number] = dict.fromkeys(held[number])
            for key in held[number]:
                self._of_partition.setdefault(key, {})[number] = None
        # A table of hashes never becomes smaller.
        self._most = {number: len(each) for number, each in self._of_member.items()}

    def result(self) -> Iterator[tuple[int, Iterable[_K]]]:
        """Hand the partitions out; yield what each member has that has or had something."""
        self._take_from_overfilled()
        self._take_from_overshared()
        for key in self._target:
            self._of_partition.setdefault(key, {})
        self._hand_out()
        yield from self._of_member.items()

    def _partitions(self) -> list[_K]:
        """Return all partitions that somebody has or shall have, in Kafka's order.

        Kafka adds them with computeIfAbsent, which puts a new key before the others of its bucket.
        """
        keys = self._of_partition
        return in_order_of_hashes(
            reversed(keys), self._hash_of, len(keys), planned=len(self._target)
        )

    def _take_from_overfilled(self) -> None:
        for number in in_order_of_hashes(
            self._of_member, int, len(self._of_member), planned=len(self._subscribers)
        ):
            held = self._of_member[number]
            surplus = len(held) - self._desired[number]
            if surplus <= 0:
                continue
            for key in in_order_of_hashes(held, self._hash_of, self._most[number])[:surplus]:
                self._move(key, number)

    def _take_from_overshared(self) -> None:
        for key in self._partitions():
            holders = self._of_partition[key]
            surplus = len(holders) - self._sharing
            if surplus > 0:
                for number in in_order_of_hashes(holders, int, len(holders))[:surplus]:
                    self._move(key, number)

    def _move(self, key: _K, number: int) -> None:
        del self._of_member[number][key]
        del self._of_partition[key][number]

    def _hand_out(self) -> None:
        """Let members take turns; a turn ends for all when none of them has taken anything."""
        unfilled = [
            number
            for number in sorted(self._subscribers)
            if len(self._of_member.get(number, ())) < self._desired[number]
        ]
        at, handed = 0, False
        for key in self._partitions():
            holders = self._of_partition[key]
            while len(holders) < self._sharing:
                if at == len(unfilled):
                    if not handed or not unfilled:
                        break
                    at, handed = 0, False
                number = unfilled[at]
                at += 1
                if number in holders:
                    continue
                holders[number] = None
                held = self._of_member.setdefault(number, {})
                held[key] = None
                handed = True
                if len(held) >= self._desired[number]:
                    at -= 1
                    del unfilled[at]
            if not unfilled:
                return
