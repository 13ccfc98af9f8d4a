"""Brokers of a cluster, and what Metadata and FindCoordinator say about whom to ask."""

from typing import NamedTuple

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


class Node(NamedTuple):
    """A broker of the cluster, by the address it advertises."""

    node_id: int
    address: Address


class Found(NamedTuple):
    """Where one key is to be asked for, or why that is not known: `error` is 0 with a node."""

    node: Node | None
    error: int = 0


def nodes_of(answer: MetadataResponse) -> dict[int, Node]:
    """The brokers of a Metadata answer by node id."""
    return {b.node_id: Node(b.node_id, Address(b.host, b.port)) for b in answer.brokers}


def found_coordinator(error: int, node_id: int, host: str, port: int) -> Found:
    """What FindCoordinator says about one group."""
    return Found(None, error) if error else Found(Node(node_id, Address(host, port)))


def found_leader(topic: MetadataResponseTopic | None, index: int, nodes: dict[int, Node]) -> Found:
    """The leader of a partition, by the Metadata of its topic."""
    if topic is None:
        return Found(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.error_code:
        return Found(None, topic.error_code)
    for partition in topic.partitions:
        if partition.partition_index == index:
            node = nodes.get(partition.leader_id)
            return Found(node) if node else Found(None, ErrorCode.LEADER_NOT_AVAILABLE)
    return Found(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
