"""The description of share groups (KIP-932): their members and what each reads.

DescribeGroups does not describe them. Nobody owns a partition of a share group, so several members
may have the same one.
"""

from collections.abc import Iterable

from coterie.client.cluster import Cluster
from coterie.client.consumer_groups import describe_by_epochs
from coterie.client.group_description import DescribedMember, GroupDescription
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
    return describe_by_epochs(
        cluster,
        group_ids,
        lambda keys: ShareGroupDescribeRequest(group_ids=keys),
        ShareGroupDescribeResponse,
        SHARE_GROUP,
        _member,
    )


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
