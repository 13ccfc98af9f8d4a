"""ShareGroupDescribe: share groups for administrators [share-groups/describe]."""

from typing import Any

from coterie.coordinator.groups.config import SHARE_ASSIGNOR
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import AskedGroup, asked_group
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.group import SHARE, ShareGroup
from coterie.coordinator.groups.share.member import ShareMember
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import (
    ShareDescribeAssignment,
    ShareDescribeTopicPartitions,
    ShareGroupDescribeResponseGroup,
    ShareGroupDescribeResponseMember,
)


class DescribedShareGroup(AskedGroup):
    """One group of a ShareGroupDescribe request."""

    __slots__ = ()


def describe_share_group(
    partition: PartitionState, asked: DescribedShareGroup
) -> ShareGroupDescribeResponseGroup:
    """Return one group: its epochs, and what its members have."""
    try:
        group = asked_group(partition, asked, ShareGroup, SHARE)
    except Refusal as refusal:
        return describe_error(asked.group_id, refusal.error, refusal.text)
    return ShareGroupDescribeResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=asked.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SHARE_ASSIGNOR,
        members=[_described(group, member) for member in group.ordered_members()],
        authorized_operations=asked.operations,
    )


def _described(group: ShareGroup, member: ShareMember) -> ShareGroupDescribeResponseMember:
    by_id = group.topics.by_id
    subscription = member.subscription
    return ShareGroupDescribeResponseMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=[] if subscription is None else subscription.subscribed_topic_names,
        assignment=ShareDescribeAssignment(
            topic_partitions=[
                ShareDescribeTopicPartitions(
                    topic_id=topic_id, topic_name=by_id[topic_id].name, partitions=list(indexes)
                )
                for topic_id, indexes in sorted(member.assigned.items())
                if topic_id in by_id
            ]
        ),
    )


def describe_error(
    group_id: str, error: ErrorCode, text: str | None = None
) -> ShareGroupDescribeResponseGroup:
    """Return a group that cannot be described."""
    return ShareGroupDescribeResponseGroup(
        error_code=error,
        error_message=text,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def describe_error_part(
    asked: Any, error: ErrorCode, _version: int
) -> ShareGroupDescribeResponseGroup:
    """Return the part of the response about a group whose partition is not available."""
    return describe_error(asked.group_id, asked.error(error))
