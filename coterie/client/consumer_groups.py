"""The description of groups of type "consumer", the newer protocol (KIP-848).

DescribeGroups does not describe them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.client.cluster import AUTHORIZATION_ERRORS, Cluster
from coterie.client.errors import Refused
from coterie.client.group_description import CONSUMER_GROUP, DescribedMember, GroupDescription
from coterie.client.topics import describe_topics
from coterie.coordinator.patterns import InvalidPattern, Pattern
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseMember,
    DescribedAssignment,
)
from coterie.protocol.wire import Message

_CLASSIC_MEMBER = 0


def describe_consumer_groups(
    cluster: Cluster, group_ids: Iterable[str], refused: dict[str, int] | None = None
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are of type "consumer".

    Args:
        cluster: the cluster.
        group_ids: the groups.
        refused: as for `describe_by_epochs`.

    Raises:
        VersionUnsupported: the broker has no groups of this type.
        Refused: a coordinator responds with another error than GROUP_ID_NOT_FOUND.
    """
    return describe_by_epochs(
        cluster,
        group_ids,
        lambda keys: ConsumerGroupDescribeRequest(group_ids=keys),
        ConsumerGroupDescribeResponse,
        CONSUMER_GROUP,
        _member,
        refused,
    )


def allowed(found: Mapping[str, Any], refused: dict[str, int]) -> dict[str, Any]:
    """Return the groups that were answered; the others are added to `refused` with their error."""
    refused.update(
        {n: each.error_code for n, each in found.items() if each.error_code in AUTHORIZATION_ERRORS}
    )
    return {name: each for name, each in found.items() if name not in refused}


def describe_by_epochs(
    cluster: Cluster,
    group_ids: Iterable[str],
    request_for: Callable[[list[str]], Message],
    response_type: type[Any],
    group_type: str,
    member_of: Callable[[Any], DescribedMember],
    refused: dict[str, int] | None = None,
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are of a type with epochs.

    Args:
        cluster: the cluster.
        group_ids: the groups.
        request_for: makes the request of this type for some groups.
        response_type: its response, whose groups have the same fields for every type.
        group_type: the name of the type, which is also that of the protocol.
        member_of: makes the description of a member.
        refused: if given, groups that are refused for lack of authorization are added here with
            their error code, and left out, instead of raising.

    Raises:
        VersionUnsupported: the broker has no groups of this type.
        Refused: a coordinator responds with another error than GROUP_ID_NOT_FOUND.
    """
    found = groups_with_epochs(cluster, group_ids, request_for, response_type, refused)
    nodes = cluster.coordinators(found)
    return {
        name: GroupDescription(
            group_id=name,
            exists=True,
            type=group_type,
            state=group.group_state,
            protocol_type=group_type,
            protocol=group.assignor_name,
            coordinator=nodes[name],
            members=[member_of(member) for member in group.members],
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )
        for name, group in found.items()
    }


def groups_with_epochs(
    cluster: Cluster,
    group_ids: Iterable[str],
    request_for: Callable[[list[str]], Message],
    response_type: type[Any],
    refused: dict[str, int] | None,
) -> dict[str, Any]:
    """Return the parts of responses about those groups that are of a type with epochs.

    Arguments and errors are those of `describe_by_epochs`.
    """
    found = cluster.call_coordinators(
        list(group_ids),
        request_for,
        response_type,
        lambda response: {group.group_id: (group.error_code, group) for group in response.groups},
    )
    described: dict[str, Any] = {}
    for name, group in (found if refused is None else allowed(found, refused)).items():
        # The broker may know groups of this type, and have them switched off.
        if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            continue
        if group.error_code:
            raise Refused(group.error_code, f"Group '{name}'", group.error_message)
        described[name] = group
    return described


def _member(member: ConsumerGroupDescribeResponseMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        member_epoch=member.member_epoch,
        target_assignment=_partitions(member.target_assignment),
        topics=list(member.subscribed_topic_names),
        regex=member.subscribed_topic_regex or None,
        is_classic=member.member_type == _CLASSIC_MEMBER,
    )


def with_matched_topics(
    cluster: Cluster, groups: Mapping[str, GroupDescription]
) -> dict[str, GroupDescription]:
    """Return groups whose members subscribe to the topics that their expressions match, too.

    The coordinator matches the whole name, with RE2 [consumer-groups/regex].
    """
    patterns = {each.regex for group in groups.values() for each in group.members if each.regex}
    if not patterns:
        return dict(groups)
    names = [topic.name for topic in describe_topics(cluster) if not topic.error]
    matched = {pattern: _matched(pattern, names) for pattern in patterns}
    return {
        group_id: group._replace(
            members=[
                each._replace(topics=sorted({*(each.topics or ()), *matched[each.regex]}))
                if each.regex
                else each
                for each in group.members
            ]
        )
        for group_id, group in groups.items()
    }


def _matched(pattern: str, names: list[str]) -> list[str]:
    try:
        compiled = Pattern(pattern)
    except InvalidPattern:
        # RE2/J reads some that RE2 does not [transactions/patterns].
        return []
    return [name for name in names if compiled.matches(name)]


def _partitions(assignment: DescribedAssignment) -> dict[str, list[int]]:
    return {part.topic_name: sorted(part.partitions) for part in assignment.topic_partitions}
