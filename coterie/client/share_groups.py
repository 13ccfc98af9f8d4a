"""The description of share groups (KIP-932): their members and what each reads.

DescribeGroups does not describe them. Nobody owns a partition of a share group, so several members
may have the same one.
"""

from collections.abc import Iterable

from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseMember,
)

SHARE_GROUP = "share"


def describe_share_groups(
    cluster: Cluster, group_ids: Iterable[str]
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are of type "share".

    Raises:
        VersionUnsupported: the broker has no groups of this type.
        Refused: a coordinator responds with another error than GROUP_ID_NOT_FOUND.
    """
    wanted = list(group_ids)
    found = cluster.call_coordinators(
        wanted,
        lambda keys: ShareGroupDescribeRequest(group_ids=keys),
        ShareGroupDescribeResponse,
        lambda response: {group.group_id: (group.error_code, group) for group in response.groups},
    )
    nodes = cluster.coordinators(wanted)
    described: dict[str, GroupDescription] = {}
    for name, group in found.items():
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        if group.error_code:
            raise Refused(group.error_code, f"Group '{name}'", group.error_message)
        described[name] = GroupDescription(
            group_id=name,
            exists=True,
            type=SHARE_GROUP,
            state=group.group_state,
            protocol_type=SHARE_GROUP,
            protocol=group.assignor_name,
            coordinator=nodes[name],
            members=[_member(member) for member in group.members],
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )
    return described


def _member(member: ShareGroupDescribeResponseMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        host=member.client_host,
        assignment={
            part.topic_name: sorted(part.partitions) for part in member.assignment.topic_partitions
        },
        member_epoch=member.member_epoch,
        topics=list(member.subscribed_topic_names),
    )
