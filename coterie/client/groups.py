"""Administration of groups: list, describe, delete.

DescribeGroups only describes classic groups. Groups that it does not find are then described with
ConsumerGroupDescribe (KIP-848), then with ShareGroupDescribe (KIP-932), and then with
StreamsGroupDescribe (KIP-1071), so the caller need not distinguish the types [client/group-types].
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.consumer_groups import allowed, describe_consumer_groups
from coterie.client.errors import Refused, VersionUnsupported
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.client.nodes import Node
from coterie.client.share_groups import describe_share_groups
from coterie.client.streams_groups import describe_streams_groups
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages import connect_protocol
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscribed_topics
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.primitives import PREFIX_BYTES

CONSUMER_PROTOCOL_TYPE = "consumer"

# The states and types of groups of all protocols (KIP-518, KIP-848, KIP-932, KIP-1071).
STATES = (
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Empty",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TYPES = ("classic", "consumer", "share", "streams")


class ListedGroup(NamedTuple):
    """A group in the list; `state` is "" if its broker does not list states."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class Deletion(NamedTuple):
    """The result of the deletion of a group; `error` is 0 if it was deleted."""

    group_id: str
    error: int
    message: str | None


def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """Return the groups of all brokers, by name.

    Args:
        cluster: the cluster.
        states: only groups in these of `STATES`, in any case; empty for all.
        types: only groups of these of `TYPES`, in any case; empty for all.

    Raises:
        Refused: a broker can't list its groups, in most cases because it is still loading them. An
            incomplete list is never returned [client/group-filters].
    """
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    request = ListGroupsRequest(
        # Brokers up to Kafka 3 compare states case-sensitively.
        states_filter=[state for state in STATES if state.lower() in wanted_states],
        types_filter=sorted(wanted_types),
    )
    found: dict[str, ListedGroup] = {}
    for node in cluster.brokers():
        response = cluster.call_node(node, request, ListGroupsResponse)
        if response.error_code:
            raise Refused(response.error_code, f"Groups of broker {node.node_id}")
        for group in response.groups:
            found[group.group_id] = ListedGroup(
                group.group_id,
                group.protocol_type,
                group.group_state,
                group.group_type or "classic",
            )
    if wanted_states and any(not group.state for group in found.values()):
        described = describe_groups(cluster, found)
        found = {name: group._replace(state=described[name].state) for name, group in found.items()}
    # Old brokers ignore the filters and list every group [client/group-filters].
    return [
        group
        for _, group in sorted(found.items())
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group.type.lower() in wanted_types)
    ]


def describe_groups(
    cluster: Cluster, group_ids: Iterable[str], refused: dict[str, int] | None = None
) -> dict[str, GroupDescription]:
    """Return the descriptions of groups; `exists` is False for a group that does not exist.

    Args:
        cluster: the cluster.
        group_ids: the groups.
        refused: if given, groups that are refused for lack of authorization are added here with
            their error code, and not described, instead of raising.

    Raises:
        Refused: a coordinator refuses, for lack of authorization or because it is still loading at
            the timeout.
    """
    wanted = list(dict.fromkeys(group_ids))
    found = cluster.call_coordinators(
        wanted,
        lambda keys: DescribeGroupsRequest(groups=keys),
        DescribeGroupsResponse,
        lambda response: {group.group_id: (group.error_code, group) for group in response.groups},
        refused=refused,
    )
    if refused is not None:
        found = allowed(found, refused)
        wanted = [name for name in wanted if name in found]
    nodes = cluster.coordinators(wanted)
    described = {name: _classic(found[name], nodes[name]) for name in wanted}
    missing = [name for name, group in described.items() if not group.exists]
    for describe in (describe_consumer_groups, describe_share_groups, describe_streams_groups):
        if missing:
            # A broker may have no groups of this type.
            with suppress(VersionUnsupported):
                described.update(describe(cluster, missing, refused))
            missing = [
                name
                for name in missing
                if not described[name].exists and name not in (refused or ())
            ]
    return {name: each for name, each in described.items() if name not in (refused or ())}


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> list[Deletion]:
    """Delete groups without members and their offsets; return the results in the same order."""
    wanted = list(dict.fromkeys(group_ids))
    results = cluster.call_coordinators(
        wanted,
        lambda keys: DeleteGroupsRequest(groups_names=keys),
        DeleteGroupsResponse,
        lambda response: {each.group_id: (each.error_code, each) for each in response.results},
    )
    return [
        Deletion(name, results[name].error_code, results[name].error_message) for name in wanted
    ]


def remove_members(
    cluster: Cluster, group_id: str, members: Iterable[DescribedMember], reason: str
) -> dict[str, int]:
    """Remove members as an administrator does; return the error code of each by its member id.

    A client that goes on notices it at its next heartbeat, and joins anew.

    Raises:
        Refused: the coordinator refuses the request as a whole.
    """
    listed = [
        LeaveGroupRequestMember(
            member_id=each.member_id, group_instance_id=each.group_instance_id, reason=reason
        )
        for each in members
    ]
    request = LeaveGroupRequest(group_id=group_id, members=listed)
    response = cluster.call_coordinators(
        [group_id],
        lambda _: request,
        LeaveGroupResponse,
        lambda response: {group_id: (response.error_code, response)},
    )[group_id]
    if response.error_code:
        raise Refused(response.error_code, f"Members of group '{group_id}' were not removed")
    return {each.member_id: each.error_code for each in response.members}


def _classic(group: DescribeGroupsResponseGroup, coordinator: Node) -> GroupDescription:
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise Refused(group.error_code, f"Group '{group.group_id}'", group.error_message)
    return GroupDescription(
        group_id=group.group_id,
        exists=not group.error_code and group.group_state != "Dead",
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator=coordinator,
        members=[_classic_member(member, group.protocol_type) for member in group.members],
    )


def _classic_member(member: DescribeGroupsResponseMember, protocol_type: str) -> DescribedMember:
    assignment: dict[str, list[int]] | None = {}
    if member.member_assignment:
        # Others than consumers have assignments in formats of their own.
        assignment = None
        if protocol_type == CONSUMER_PROTOCOL_TYPE:
            try:
                decoded = decode_assignment(member.member_assignment)
                assignment = {
                    part.topic: sorted(part.partitions)
                    for part in decoded.assigned_partitions
                    if part.partitions
                }
            except MalformedFrame:
                pass
    topics = _topics(member.member_metadata, protocol_type)
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assignment,
        topics=topics,
        # The subscription begins with its version.
        subscription_version=None
        if topics is None
        else int.from_bytes(member.member_metadata[:PREFIX_BYTES], "big"),
        worker=_worker(member, protocol_type),
    )


def _worker(
    member: DescribeGroupsResponseMember, protocol_type: str
) -> connect_protocol.ConnectWorker | None:
    """Return what a worker of Kafka Connect runs [consumer-protocol/connect-workers]."""
    if protocol_type != connect_protocol.PROTOCOL_TYPE or not member.member_metadata:
        return None
    try:
        return connect_protocol.decode_worker(member.member_metadata, member.member_assignment)
    except MalformedFrame:
        return None


def _topics(metadata: bytes, protocol_type: str) -> list[str] | None:
    """Return the topics that a member subscribes to; None if it is not a consumer."""
    if not metadata or protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return decode_subscribed_topics(metadata)
    except MalformedFrame:
        return None
