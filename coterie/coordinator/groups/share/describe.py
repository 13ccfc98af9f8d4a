"""ShareGroupDescribe: share groups for administrators [share-groups/describe]."""

from coterie.coordinator.groups.config import SHARE_ASSIGNOR
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import AskedGroup
from coterie.coordinator.groups.share.group import ShareGroup
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

    GROUPS = ShareGroup
    PART = ShareGroupDescribeResponseGroup

    __slots__ = ()

    def description(
        self,
        partition: PartitionState,  # noqa: ARG002 - it needs no setting
        group: ShareGroup,
    ) -> ShareGroupDescribeResponseGroup:
        """Return its epochs, and what its members have."""
        return ShareGroupDescribeResponseGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=SHARE_ASSIGNOR,
            members=[_described(group, member) for member in group.ordered_members()],
            authorized_operations=self.operations,
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
