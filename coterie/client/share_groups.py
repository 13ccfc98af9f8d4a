"""Share groups (KIP-932): their description, and where they begin to read.

Other groups commit offsets. A share group has a start offset in each partition, which its share
coordinator keeps, and a lag that leaves out what is done with behind it [client/share-groups].
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.consumer_groups import describe_by_epochs
from coterie.client.errors import Refused
from coterie.client.group_description import SHARE_GROUP, DescribedMember, GroupDescription
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from coterie.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseMember,
)


class StartOffset(NamedTuple):
    """Where a share group begins to read a partition.

    Attributes:
        offset: the start offset; None if its leader has yet to choose it.
        leader_epoch: the epoch of the leader that has written it.
        lag: the records that are not done with; None if that is not known.
    """

    offset: int | None
    leader_epoch: int
    lag: int | None


def describe_share_groups(
    cluster: Cluster, group_ids: Iterable[str], refused: dict[str, int] | None = None
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are share groups.

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
        lambda keys: ShareGroupDescribeRequest(group_ids=keys),
        ShareGroupDescribeResponse,
        SHARE_GROUP,
        _member,
        refused,
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


def start_offsets(
    cluster: Cluster, group_ids: Iterable[str]
) -> dict[str, dict[TopicPartition, StartOffset]]:
    """Return the start offsets of share groups in all partitions that they read.

    Raises:
        Refused: a coordinator refuses.
    """
    wanted = list(group_ids)
    found = cluster.call_coordinators(
        wanted,
        lambda keys: DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(group_id=key, topics=None) for key in keys
            ]
        ),
        DescribeShareGroupOffsetsResponse,
        lambda response: {group.group_id: (group.error_code, group) for group in response.groups},
    )
    return {name: _start_offsets(found[name]) for name in wanted}


def _start_offsets(
    group: DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, StartOffset]:
    if group.error_code:
        raise Refused(group.error_code, f"Offsets of group '{group.group_id}'", group.error_message)
    offsets: dict[TopicPartition, StartOffset] = {}
    for topic in group.topics:
        for part in topic.partitions:
            name = f"Offset of {topic.topic_name}-{part.partition_index}"
            if part.error_code:
                raise Refused(part.error_code, name, part.error_message)
            # Kafka says -1 for what it does not know.
            offsets[topic.topic_name, part.partition_index] = StartOffset(
                None if part.start_offset == -1 else part.start_offset,
                part.leader_epoch,
                None if part.lag == -1 else part.lag,
            )
    return offsets


def alter_start_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Set start offsets of a share group without members; return each partition's error code."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        part = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        topics.setdefault(topic, []).append(part)
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)
            for name, parts in topics.items()
        ],
    )
    response = cluster.call_coordinators(
        [group_id],
        lambda _: request,
        AlterShareGroupOffsetsResponse,
        lambda response: {group_id: (response.error_code, response)},
    )[group_id]
    errors = dict.fromkeys(offsets, response.error_code)
    for topic_result in response.responses:
        for result in topic_result.partitions:
            errors[topic_result.topic_name, result.partition_index] = result.error_code
    return errors


def delete_start_offsets(
    cluster: Cluster, group_id: str, topics: Iterable[str]
) -> dict[str, tuple[int, str | None]]:
    """Forget where a share group without members was in topics.

    Returns:
        By topic, error code and text; those of the group if it is refused as a whole.
    """
    names = list(topics)
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names],
    )
    response = cluster.call_coordinators(
        [group_id],
        lambda _: request,
        DeleteShareGroupOffsetsResponse,
        lambda response: {group_id: (response.error_code, response)},
    )[group_id]
    whole = response.error_code, response.error_message
    return {
        **dict.fromkeys(names, whole),
        **{each.topic_name: (each.error_code, each.error_message) for each in response.responses},
    }
