"""The brokers of a cluster, and what each leads and coordinates."""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.address import Address
from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError, Refused, VersionUnsupported
from coterie.client.nodes import Node
from coterie.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from coterie.protocol.messages.metadata import MetadataResponse

RUNNING, DOWN, UNREACHABLE = "running", "down", "unreachable"
_NO_LEADER = -1


class BrokerState(NamedTuple):
    """A broker.

    Attributes:
        node_id, address: as it is registered.
        state: running; down if the others know that; unreachable if they do not, or only from here.
        is_live: whether the others take it for alive.
        leads: the partitions that it leads, by topic.
        groups: the groups that it coordinates; none if it was not reached.
        transactional_ids: those whose transactions it coordinates; none if it cannot list them.
    """

    node_id: int
    address: Address
    state: str
    is_live: bool
    leads: Mapping[str, list[int]]
    groups: list[str]
    transactional_ids: list[str]


class ClusterState(NamedTuple):
    """A cluster.

    Attributes:
        controller_id: the broker that clients send changes to; None if none is named.
        brokers: by their ids.
        leaderless: the partitions that nothing leads, by topic.
    """

    controller_id: int | None
    brokers: list[BrokerState]
    leaderless: Mapping[str, list[int]]


def describe_cluster(cluster: Cluster) -> ClusterState:
    """Return the state of a cluster, with brokers that are down where Kafka lists them.

    Raises:
        ClientError: no broker is reached, or the request is refused.
    """
    metadata = cluster.metadata(None)
    leads = _leads(metadata)
    brokers = []
    for node, is_live in _registered(cluster, metadata):
        state, groups, transactional_ids = DOWN, list[str](), list[str]()
        if is_live:
            try:
                groups = _groups(cluster, node)
                transactional_ids = _transactional_ids(cluster, node)
                state = RUNNING
            except Refused:
                raise
            except ClientError:
                state = UNREACHABLE
        led = leads.get(node.node_id, {})
        brokers.append(BrokerState(*node, state, is_live, led, groups, transactional_ids))
    controller_id = None if metadata.controller_id < 0 else metadata.controller_id
    return ClusterState(controller_id, brokers, leads.get(_NO_LEADER, {}))


def _leads(metadata: MetadataResponse) -> dict[int, dict[str, list[int]]]:
    """Return the partitions that each broker leads, by topic."""
    found: dict[int, dict[str, list[int]]] = {}
    for topic in sorted(metadata.topics, key=lambda each: each.name or ""):
        for each in sorted(topic.partitions, key=lambda one: one.partition_index):
            of_leader = found.setdefault(each.leader_id, {})
            of_leader.setdefault(topic.name or "", []).append(each.partition_index)
    return found


def _registered(cluster: Cluster, metadata: MetadataResponse) -> list[tuple[Node, bool]]:
    """Return the brokers, each with whether it is live; without DescribeCluster only live ones."""
    live = {
        each.node_id: Node(each.node_id, Address(each.host, each.port)) for each in metadata.brokers
    }
    found = {node_id: (node, True) for node_id, node in live.items()}
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    try:
        response = cluster.call_any(request, DescribeClusterResponse)
    except VersionUnsupported:
        return [each for _, each in sorted(found.items())]
    if response.error_code:
        raise Refused(response.error_code, "The brokers of the cluster", response.error_message)
    for each in response.brokers:
        if each.is_fenced:
            found[each.broker_id] = Node(each.broker_id, Address(each.host, each.port)), False
    return [each for _, each in sorted(found.items())]


def _groups(cluster: Cluster, node: Node) -> list[str]:
    response = cluster.call_node(node, ListGroupsRequest(), ListGroupsResponse)
    if response.error_code:
        raise Refused(response.error_code, f"Groups of broker {node.node_id}")
    return sorted(each.group_id for each in response.groups)


def _transactional_ids(cluster: Cluster, node: Node) -> list[str]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    try:
        response = cluster.call_node(node, request, ListTransactionsResponse)
    except VersionUnsupported:
        return []
    if response.error_code:
        raise Refused(response.error_code, f"Transactions of broker {node.node_id}")
    return sorted(each.transactional_id for each in response.transaction_states)
