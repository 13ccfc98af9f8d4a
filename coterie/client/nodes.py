"""The brokers of a cluster, and which of them is responsible for a group or a partition."""

from typing import NamedTuple

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


class Node(NamedTuple):
    """A broker of the cluster, with the address it advertises."""

    node_id: int
    address: Address


class Responsible(NamedTuple):
    """The broker responsible for a group or partition, or an error code if it is not known."""

    node: Node | None
    error: int = 0


def nodes_of(metadata: MetadataResponse) -> dict[int, Node]:
    """Return the brokers by node id."""
    return {b.node_id: Node(b.node_id, Address(b.host, b.port)) for b in metadata.brokers}


def coordinator_of(error: int, node_id: int, host: str, port: int) -> Responsible:
    """Return the coordinator in the fields of a FindCoordinator response."""
    return Responsible(None, error) if error else Responsible(Node(node_id, Address(host, port)))


def leader_of(
    topic: MetadataResponseTopic | None, index: int, nodes: dict[int, Node]
) -> Responsible:
    """Return the leader of a partition.

    Args:
        topic: the topic's part of a Metadata response; None if the response does not have it.
        index: the partition's number.
        nodes: the brokers by node id.
    """
    if topic is None:
        return Responsible(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.error_code:
        return Responsible(None, topic.error_code)
    for partition in topic.partitions:
        if partition.partition_index == index:
            node = nodes.get(partition.leader_id)
            return Responsible(node) if node else Responsible(None, ErrorCode.LEADER_NOT_AVAILABLE)
    return Responsible(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
