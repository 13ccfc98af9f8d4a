"""Groups as an administrator sees them: list, describe, delete.

A group of Kafka's newer protocols is no classic group, and DescribeGroups says it does not exist;
groups of type "consumer" are then asked for by ConsumerGroupDescribe (KIP-848), so that both look
the same to who asks.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.consumer_groups import describe_consumer_groups
from coterie.client.described import GroupDescription, Member
from coterie.client.errors import Refused, VersionUnsupported
from coterie.client.nodes import Node
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscribed_topics
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CONSUMER_PROTOCOL_TYPE = "consumer"

# The states and types a group can have, of whichever protocol (KIP-518, KIP-848, KIP-932,
# KIP-1071).
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
    """A line of the list. `state` is empty when only a broker without states was asked."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class Deletion(NamedTuple):
    """What became of a group that was to be deleted; `error` 0 is done."""

    group_id: str
    error: int
    message: str | None


def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """The groups of all brokers, by name.

    Args:
        cluster: where.
        states: only groups in one of these of `STATES` (any case); empty for all.
        types: only groups of one of these of `TYPES` (any case); empty for all.

    Raises:
        Refused: a broker can't list its groups, most often because it is still loading some.
    """
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    request = ListGroupsRequest(
        # Brokers up to Kafka 3 compare states with their case.
        states_filter=[state for state in STATES if state.lower() in wanted_states],
        types_filter=sorted(wanted_types),
    )
    found: dict[str, ListedGroup] = {}
    for node in cluster.brokers():
        answer = cluster.ask_node(node, request, ListGroupsResponse)
        if answer.error_code:
            raise Refused(answer.error_code, f"Groups of broker {node.node_id}")
        for group in answer.groups:
            found[group.group_id] = ListedGroup(
                group.group_id,
                group.protocol_type,
                group.group_state,
                group.group_type or "classic",
            )
    if wanted_states and any(not group.state for group in found.values()):
        described = describe_groups(cluster, found)
        found = {name: group._replace(state=described[name].state) for name, group in found.items()}
    # Brokers that do not know a filter send every group.
    return [
        group
        for _, group in sorted(found.items())
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group.type.lower() in wanted_types)
    ]


def describe_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """State, protocol, coordinator and members; `exists` is False for what is no group.

    Raises:
        Refused: a coordinator refuses (authorization, loading beyond the time allowed).
    """
    wanted = list(dict.fromkeys(group_ids))
    answers = cluster.ask_coordinators(
        wanted,
        lambda some: DescribeGroupsRequest(groups=some),
        DescribeGroupsResponse,
        lambda answer: {group.group_id: (group.error_code, group) for group in answer.groups},
    )
    nodes = cluster.coordinators(wanted)
    described = {name: _classic(answers[name], nodes[name]) for name in wanted}
    missing = [name for name, group in described.items() if not group.exists]
    if missing:
        # On a broker without such groups, what DescribeGroups does not know is not there.
        with suppress(VersionUnsupported):
            described.update(describe_consumer_groups(cluster, missing))
    return described


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> list[Deletion]:
    """Delete groups without members, their offsets included; results in the order given."""
    wanted = list(dict.fromkeys(group_ids))
    results = cluster.ask_coordinators(
        wanted,
        lambda some: DeleteGroupsRequest(groups_names=some),
        DeleteGroupsResponse,
        lambda answer: {result.group_id: (result.error_code, result) for result in answer.results},
    )
    return [
        Deletion(name, results[name].error_code, results[name].error_message) for name in wanted
    ]


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


def _classic_member(member: DescribeGroupsResponseMember, protocol_type: str) -> Member:
    assignment: dict[str, list[int]] | None = {}
    if member.member_assignment:
        # Connect workers and schema registries put other bytes there, which are nobody's business
        # but theirs.
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
    return Member(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assignment,
        topics=_topics(member.member_metadata, protocol_type),
    )


def _topics(metadata: bytes, protocol_type: str) -> list[str] | None:
    """What a member subscribes to, if its metadata is a consumer's."""
    if not metadata or protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return decode_subscribed_topics(metadata)
    except MalformedFrame:
        return None
