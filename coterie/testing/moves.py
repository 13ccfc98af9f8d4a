"""What faults really move in a cluster: coordinators, and leaders that go.

A single broker pretends that its coordinator has moved, or that nothing leads a partition. Several
brokers do it: the first request that meets the fault moves what it is about, for all clients, and
the brokers answer as they do after any move. When the fault is over all of it moves back.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.resources import groups_of
from coterie.server.brokers import Cluster
from coterie.server.cluster.elections import without_leaders
from coterie.server.cluster.image import NO_LEADER, CoordinatorType
from coterie.server.services import Services
from coterie.testing.actions import CoordinatorLoads, CoordinatorMoves, NoLeader
from coterie.testing.faults import Fault
from coterie.testing.request_subjects import topics_of
from coterie.testing.requests import Request, api_named


class Moved(NamedTuple):
    """A partition that a fault has moved.

    Attributes:
        topic, partition: the partition.
        leader_id: what led it before.
        now_id: what leads it since; -1 for nothing.
    """

    topic: str
    partition: int
    leader_id: int
    now_id: int


class Moves:
    """What faults have moved, until they are over."""

    def __init__(self, brokers: Cluster) -> None:
        """Move nothing yet."""
        self._brokers = brokers
        self._moved: dict[Fault, list[Moved]] = {}

    def concern(self, fault: Fault, request: Request, broker: Services) -> bool:
        """Return whether a fault, which covers a request, is about the broker that received it.

        Where a coordinator has moved to, requests are handled. A broker that does not coordinate a
        group answers by itself.
        """
        match fault.action:
            case CoordinatorMoves():
                partitions = self._coordinated(fault, request)
                if api_named(request.api) is ApiKey.FIND_COORDINATOR:
                    return bool(partitions)
                moved = {(each.topic, each.partition) for each in self._moved.get(fault, ())}
                return any(
                    (self._leader_id(*each) == broker.node_id) != (each in moved)
                    for each in partitions
                )
            case CoordinatorLoads():
                partitions = self._coordinated(fault, request)
                return any(self._leader_id(*each) == broker.node_id for each in partitions)
            case _:
                return True

    def meet(self, fault: Fault, request: Request, broker: Services) -> None:
        """Move what a request that meets a fault is about, if it has not moved already."""
        moved = self._moved.setdefault(fault, [])
        if isinstance(fault.action, NoLeader):
            moved += self._take_leaders_away(fault, request, broker)
            return
        for topic, index in self._coordinated(fault, request):
            leader_id = self._leader_id(topic, index)
            to = self._other(topic, index)
            if to is not None and not any((topic, index) == each[:2] for each in moved):
                self._brokers.move(topic, index, to)
                moved.append(Moved(topic, index, leader_id, to))

    def end(self, fault: Fault) -> None:
        """Move back what a fault has moved and nothing else has moved since."""
        for each in self._moved.pop(fault, ()):
            image = self._brokers.leadership.image
            where = image.placed(each.topic, each.partition)
            if where is None or where.leader_id != each.now_id:
                continue
            up = [one for one in image.live_ids if one in self._brokers.brokers]
            to = next((one for one in (each.leader_id, *where.replicas) if one in up), None)
            if to is not None:
                self._brokers.move(each.topic, each.partition, to)

    def end_all(self, faults: Iterable[Fault], now_ms: int) -> None:
        """Move back what the faults have moved that are over."""
        for fault in faults:
            if fault in self._moved and fault.is_over(now_ms):
                self.end(fault)

    def _coordinated(self, fault: Fault, request: Request) -> list[tuple[str, int]]:
        """Return the partitions of the groups that a request names and a fault is about."""
        image, only = self._brokers.leadership.image, fault.scope.group
        return [
            found
            for group_id in sorted(groups_of(request.message))
            if only in (None, group_id)
            and (found := image.coordinator_partition(CoordinatorType.GROUP, group_id)) is not None
        ]

    def _leader_id(self, topic: str, index: int) -> int:
        where = self._brokers.leadership.image.placed(topic, index)
        return NO_LEADER if where is None else where.leader_id

    def _other(self, topic: str, index: int) -> int | None:
        """Return the broker to which a partition moves; None if no other one is up."""
        image = self._brokers.leadership.image
        where = image.placed(topic, index)
        if where is None or where.leader_id == NO_LEADER:
            return None
        up = [each for each in self._brokers.brokers if each in image.live_ids]
        wanted = [*where.replicas, *sorted(up)]
        return next((each for each in wanted if each in up and each != where.leader_id), None)

    def _take_leaders_away(self, fault: Fault, request: Request, broker: Services) -> list[Moved]:
        only = fault.scope.topic
        image = self._brokers.leadership.image
        led = [
            Moved(topic, index, where.leader_id, NO_LEADER)
            for topic in sorted(topics_of(request.message, broker))
            if only in (None, topic)
            and (found := broker.topics.find(topic)) is not None
            and not found.is_own
            for index, where in enumerate(image.placements.get(topic, ()))
            if where.leader_id != NO_LEADER
        ]
        if led:
            partitions = {(each.topic, each.partition) for each in led}
            self._brokers.leadership.change(without_leaders(image, partitions))
        return led
