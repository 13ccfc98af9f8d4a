"""Partitions on their way from one member to another, in a consumer group (KIP-848).

A target names the members that shall have partitions. Their owners learn it with their next
heartbeats, give them up and say so; after that the new owners get them, with theirs
[pipeline/epoch-handovers].

Invariant: a partition is on at most one way, and its owner there is the one in `_holders`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.model import Handover

GIVEN_UP = "given up"


class _Lost(NamedTuple):
    """The last owner of a partition, which was removed."""

    member_key: str
    at_ms: int
    cause: str


class Handovers:
    """The ways of one group's partitions."""

    def __init__(self, group_id: str) -> None:
        """Begin without members."""
        self._group_id = group_id
        self._holders: dict[TopicPartition, str] = {}
        self._held: dict[str, set[TopicPartition]] = {}
        self._lost: dict[TopicPartition, _Lost] = {}
        self._open: dict[TopicPartition, Handover] = {}
        self._done: list[Handover] = []

    def all(self) -> list[Handover]:
        """Return those that have ended and those that have not, by the time of their targets."""
        every = [*self._done, *self._open.values()]
        return sorted(every, key=lambda each: (each.asked_ms, each.topic, each.partition))

    def targeted(
        self, epoch: int, at_ms: int, changes: Mapping[TopicPartition, str | None]
    ) -> None:
        """Apply a new target.

        Args:
            epoch: its epoch.
            at_ms: when it was computed.
            changes: by partition the key of the member that shall have it, where that is another
                one than before; None for nobody.
        """
        for partition, to_key in sorted(changes.items()):
            begun = self._open.get(partition)
            if begun is not None:
                # Its owner was asked before; only where it goes is new. A partition that nobody
                # shall have, or its owner again, goes nowhere.
                if to_key in (None, begun.from_member_key):
                    del self._open[partition]
                else:
                    self._open[partition] = begun._replace(to_member_key=to_key)
                continue
            holder, lost = self._holders.get(partition), self._lost.get(partition)
            if to_key is None:
                continue
            if holder is not None and holder != to_key:
                self._begin(epoch, at_ms, partition, holder, to_key)
            elif holder is None and lost is not None and lost.member_key != to_key:
                self._begin(epoch, at_ms, partition, lost.member_key, to_key)
                self._given_up(partition, lost.at_ms, lost.cause)

    def asked(self, member_key: str, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Note that a member was asked to give partitions up."""
        for partition in partitions:
            way = self._open.get(partition)
            if way is not None and way.from_member_key == member_key and way.noticed_ms is None:
                self._open[partition] = way._replace(noticed_ms=at_ms)

    def has(
        self,
        member_key: str,
        assigned: set[TopicPartition],
        pending: set[TopicPartition],
        at_ms: int,
    ) -> None:
        """Note what a member has, and what of it it has yet to give up."""
        held = pending | assigned
        for partition in sorted(self._held.get(member_key, set()) - held):
            self._forget(partition, member_key)
            self._given_up(partition, at_ms, GIVEN_UP)
        for partition in sorted(held):
            self._holders[partition] = member_key
            self._lost.pop(partition, None)
        self._held[member_key] = held
        self.asked(member_key, pending, at_ms)
        for partition in sorted(assigned):
            way = self._open.get(partition)
            if way is not None and way.to_member_key == member_key:
                del self._open[partition]
                self._done.append(way._replace(taken_ms=at_ms))

    def removed(self, member_key: str, at_ms: int, cause: str) -> None:
        """Note that a member was removed, with what it had and what it waited for."""
        for partition in sorted(self._held.pop(member_key, set())):
            self._forget(partition, member_key)
            self._lost[partition] = _Lost(member_key, at_ms, cause)
            self._given_up(partition, at_ms, cause)

    def pending_since(self, member_key: str) -> int | None:
        """Return since when a member is asked for partitions that it still has; None if not."""
        asked = [
            way.noticed_ms
            for way in self._open.values()
            if way.from_member_key == member_key and way.given_up_ms is None
        ]
        return max((at_ms for at_ms in asked if at_ms is not None), default=None)

    def ended(self, at_ms: int, removal: str, how: str) -> None:
        """Forget the members, because the group has become another one [pipeline/changed-type].

        What was free is assigned anew then, so nobody is late to take it.

        Args:
            at_ms: when it did.
            removal: how members were removed that it has taken along.
            how: what ends the ways on which partitions are still held.
        """
        for partition, way in self._open.items():
            if way.given_up_ms == at_ms and way.ended_by == removal:
                self._open[partition] = way._replace(ended_by=how)
            elif way.given_up_ms is None:
                self._open[partition] = way._replace(given_up_ms=at_ms, ended_by=how)
        self._holders.clear()
        self._held.clear()
        self._lost.clear()
        self._done += [each for each in self._open.values() if each.ended_by == how]
        self._open.clear()

    def _forget(self, partition: TopicPartition, member_key: str) -> None:
        """Let a partition have no holder; a log may give it to another one before that."""
        if self._holders.get(partition) == member_key:
            del self._holders[partition]

    def _begin(
        self, epoch: int, at_ms: int, partition: TopicPartition, from_key: str, to_key: str
    ) -> None:
        self._open[partition] = Handover(
            self._group_id, epoch, *partition, from_key, to_key, at_ms, None, None, None, None
        )

    def _given_up(self, partition: TopicPartition, at_ms: int, how: str) -> None:
        way = self._open.get(partition)
        if way is not None and way.given_up_ms is None:
            self._open[partition] = way._replace(given_up_ms=at_ms, ended_by=how)
