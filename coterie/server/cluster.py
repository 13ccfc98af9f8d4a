"""The cluster as clients see it: an immutable image, which is replaced when something changes.

Handlers ask the image where partitions and groups are served; topics do not know it. Today one
broker leads every partition and coordinates every group [topics/one-broker].
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol

from coterie.address import Address


class CoordinatorType(IntEnum):
    """What a coordinator coordinates, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


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
    """

    node_id: int
    listeners: Mapping[str, Address]
    rack: str | None = None


class Placement(NamedTuple):
    """Where a partition is.

    Attributes:
        leader_id, leader_epoch: its leader; -1 if it is offline.
        replicas, isr, offline: the brokers that have it, those that are in sync, and those that
            cannot read or write it.
    """

    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class PlacedPartition(Protocol):
    """A partition, as far as the image needs it."""

    @property
    def failed(self) -> bool:
        """Whether its log cannot be used."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of its leader."""


class ClusterImage:
    """The brokers, and where partitions and groups are served.

    Attributes:
        version: another number after each change; what was encoded from an image belongs to it.
        cluster_id: the id of the cluster.
        nodes: the brokers, by their ids in order.
        controller_id: the broker that clients send changes to.
    """

    __slots__ = ("_endpoints", "cluster_id", "controller_id", "nodes", "version")

    def __init__(self, cluster_id: str, node: Node, version: int = 0) -> None:
        """Describe a cluster of one broker."""
        self.version = version
        self.cluster_id = cluster_id
        self.nodes = {node.node_id: node}
        self.controller_id = node.node_id
        # By listener and node, because every Metadata request asks for them.
        self._endpoints = {
            listener: {node.node_id: Endpoint(node.node_id, address.host, address.port, node.rack)}
            for listener, address in node.listeners.items()
        }

    def advertising(self, node_id: int, listener: str, address: Address) -> "ClusterImage":
        """Return the next image, in which a broker has another listener or another address."""
        node = self.nodes[node_id]
        changed = node._replace(listeners={**node.listeners, listener: address})
        return ClusterImage(self.cluster_id, changed, self.version + 1)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Return where the clients of a listener find a broker; None if it has no such listener."""
        return self._endpoints.get(listener, {}).get(node_id)

    def endpoints(self, listener: str) -> Collection[Endpoint]:
        """Return where the clients of a listener find each broker that has this listener.

        [topics/endpoint-of-a-listener]
        """
        return self._endpoints.get(listener, {}).values()

    def placement(self, partition: PlacedPartition) -> Placement:
        """Return where a partition is; one without a log is offline [topics/offline-partitions]."""
        replicas = [self.controller_id]
        if partition.failed:
            return Placement(-1, -1, replicas, [], replicas)
        return Placement(self.controller_id, partition.leader_epoch, replicas, replicas, [])

    def coordinator(self, kind: CoordinatorType, _key: str) -> int | None:
        """Return the broker that coordinates a group or transactional id; None if none does."""
        return None if kind is CoordinatorType.SHARE else self.controller_id
