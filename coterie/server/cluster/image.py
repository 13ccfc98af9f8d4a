"""The cluster as clients see it: an immutable image, which is replaced when something changes.

Handlers ask the image where partitions and groups are served; topics do not know it. A topic that
the image does not list is on the only broker, which leads it and coordinates every group
[topics/one-broker].
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from coterie.address import Address
from coterie.protocol.java_hash import partition_for
from coterie.protocol.topic_names import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC

# The leader of a partition that has none.
NO_LEADER = -1


class CoordinatorType(IntEnum):
    """What a coordinator coordinates, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


# The topics whose leaders are coordinators.
_TOPIC_OF = {
    CoordinatorType.GROUP: OFFSETS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTIONS_TOPIC,
    CoordinatorType.SHARE: SHARE_GROUPS_TOPIC,
}


class Endpoint(NamedTuple):
    """Where the clients of one listener find a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Node(NamedTuple):
    """A broker.

    Attributes:
        node_id: its id.
        listeners: the advertised address of each of its listeners, by name.
        rack: where it is; None if that is not known.
        is_live: False if it is registered and known to be down: Kafka calls it fenced.
    """

    node_id: int
    listeners: Mapping[str, Address]
    rack: str | None = None
    is_live: bool = True


class Placement(NamedTuple):
    """Where a partition is.

    Attributes:
        leader_id, leader_epoch: its leader; -1 if it is offline.
        replicas, isr, offline: the brokers that have it, those that are in sync, and those that
            cannot read or write it. The lists are never changed.
    """

    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class NamedTopic(Protocol):
    """The topic of a partition, as far as the image needs it."""

    @property
    def name(self) -> str:
        """Its name."""


class PlacedPartition(Protocol):
    """A partition, as far as the image needs it."""

    @property
    def topic(self) -> NamedTopic:
        """Its topic."""

    @property
    def index(self) -> int:
        """Its number."""

    @property
    def failed(self) -> bool:
        """Whether its log cannot be used."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of its leader."""


# The placements of topics, by name and by the number of the partition.
Placements = Mapping[str, Sequence[Placement]]


class ClusterImage:
    """The brokers, and where partitions and groups are served.

    Attributes:
        version: another number after each change; what was encoded from an image belongs to it.
        cluster_id: the id of the cluster.
        nodes: the registered brokers, by their ids in order.
        controller_id: the broker that clients send changes to: a live one, because each of them
            makes every change.
        placements: where the partitions of topics are; empty if there is one broker.
    """

    __slots__ = (
        "_endpoints", "cluster_id", "controller_id", "nodes", "placements", "version",
    )  # fmt: skip

    def __init__(
        self,
        cluster_id: str,
        nodes: Iterable[Node],
        placements: Placements | None = None,
        version: int = 0,
    ) -> None:
        """Describe a cluster of at least one broker."""
        self.version = version
        self.cluster_id = cluster_id
        self.nodes = {each.node_id: each for each in sorted(nodes)}
        assert self.nodes, "a cluster has a broker"
        self.controller_id = next(iter(self.live_ids or self.nodes))
        self.placements: Placements = {} if placements is None else placements
        # By listener and node, because every Metadata request asks for them.
        self._endpoints: dict[str, dict[int, Endpoint]] = {}
        for node in self.nodes.values():
            for listener, address in node.listeners.items():
                if node.is_live:
                    endpoint = Endpoint(node.node_id, address.host, address.port, node.rack)
                    self._endpoints.setdefault(listener, {})[node.node_id] = endpoint

    @property
    def live_ids(self) -> list[int]:
        """The brokers that are not known to be down, in the order of their ids."""
        return [each.node_id for each in self.nodes.values() if each.is_live]

    def with_node(self, node: Node) -> "ClusterImage":
        """Return the next image, in which a broker is described anew."""
        others = [each for each in self.nodes.values() if each.node_id != node.node_id]
        return ClusterImage(self.cluster_id, [*others, node], self.placements, self.version + 1)

    def with_placements(self, placements: Placements) -> "ClusterImage":
        """Return the next image, in which partitions are placed anew."""
        return ClusterImage(self.cluster_id, self.nodes.values(), placements, self.version + 1)

    def advertising(self, node_id: int, listener: str, address: Address) -> "ClusterImage":
        """Return the next image, in which a broker has another listener or another address."""
        node = self.nodes[node_id]
        return self.with_node(node._replace(listeners={**node.listeners, listener: address}))

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Return where the clients of a listener find a live broker.

        None if it has no such listener.
        """
        return self._endpoints.get(listener, {}).get(node_id)

    def endpoints(self, listener: str) -> Collection[Endpoint]:
        """Return where the clients of a listener find each live broker that has this listener.

        [topics/endpoint-of-a-listener]
        """
        return self._endpoints.get(listener, {}).values()

    def fenced_endpoints(self, listener: str) -> list[Endpoint]:
        """Return where the brokers that are down were found."""
        return [
            Endpoint(each.node_id, *each.listeners[listener], each.rack)
            for each in self.nodes.values()
            if not each.is_live and listener in each.listeners
        ]

    def placement(self, partition: PlacedPartition) -> Placement:
        """Return where a partition is; one without a log is offline [topics/partition-states].

        An image of several brokers does not know a partition that was created after it was made.
        """
        placed = self.placements.get(partition.topic.name)
        if placed is not None and partition.index < len(placed):
            where = placed[partition.index]
            if partition.failed:
                return Placement(NO_LEADER, -1, where.replicas, [], where.replicas)
            return where
        if len(self.nodes) > 1:
            return Placement(NO_LEADER, -1, [], [], [])
        replicas = [self.controller_id]
        if partition.failed:
            return Placement(NO_LEADER, -1, replicas, [], replicas)
        return Placement(self.controller_id, partition.leader_epoch, replicas, replicas, [])

    def placed(self, topic: str, index: int) -> Placement | None:
        """Return where a partition is; None if the image does not list it."""
        placed = self.placements.get(topic)
        return placed[index] if placed is not None and 0 <= index < len(placed) else None

    def coordinator(self, kind: CoordinatorType, key: str) -> int | None:
        """Return the broker that coordinates a group or transactional id; None if none does."""
        found = self.coordinator_partition(kind, key)
        if found is None:
            return self.controller_id
        leader_id = self.placements[found[0]][found[1]].leader_id
        return None if leader_id == NO_LEADER else leader_id

    def coordinator_partition(self, kind: CoordinatorType, key: str) -> tuple[str, int] | None:
        """Return the partition whose leader coordinates a group or transactional id.

        None if the image does not list its topic.
        """
        topic = _TOPIC_OF[kind]
        placed = self.placements.get(topic)
        return None if placed is None else (topic, partition_for(key, len(placed)))
