"""ConsumerGroupDescribe: consumer groups for administrators [consumer-groups/describe]."""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    GROUP_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    DescribedAssignment,
    DescribedTopicPartitions,
)

# The types of members on the wire.
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


class DescribedConsumerGroup:
    """One group of a ConsumerGroupDescribe request."""

    __slots__ = ("group_id", "with_operations")

    def __init__(self, group_id: str, *, with_operations: bool) -> None:
        self.group_id = group_id
        self.with_operations = with_operations


def describe_consumer_group(
    partition: PartitionState, asked: DescribedConsumerGroup
) -> ConsumerGroupDescribeResponseGroup:
    """Return one group: its epochs, and what its members have and shall have."""
    group_id = asked.group_id
    if not group_id:
        return describe_error(group_id, ErrorCode.INVALID_GROUP_ID)
    group = partition.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        known = group is not None or group_id in partition.logged.other_groups
        text = "is not a consumer group" if known else "not found"
        error = ErrorCode.GROUP_ID_NOT_FOUND
        return describe_error(group_id, error, f"Group {group_id} {text}.")
    assert group.exists, f"{group} was given up and is in its partition"
    default = partition.config.consumer.assignors[0]
    return ConsumerGroupDescribeResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default),
        members=[_described(group, member) for member in group.ordered_members()],
        authorized_operations=(
            GROUP_OPERATIONS if asked.with_operations else AUTHORIZED_OPERATIONS_OMITTED
        ),
    )


def _described(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupDescribeResponseMember:
    assert group.members.get(member.member_id) is member, f"{member} is not in {group}"
    owned: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.pending):
        for topic_id, indexes in part.items():
            owned.setdefault(topic_id, []).extend(indexes)
    subscription = member.subscription
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=None if subscription is None else subscription.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=[] if subscription is None else subscription.subscribed_topic_names,
        subscribed_topic_regex=member.regex,
        assignment=_assignment(owned, group.topics),
        target_assignment=_assignment(group.target(member.member_id), group.topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage
) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            # A large group has tens of thousands of them.
            DescribedTopicPartitions.of(topic_id, topics.by_id[topic_id].name, sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if topic_id in topics.by_id
        ]
    )


def describe_error(
    group_id: str, error: ErrorCode, text: str | None = None
) -> ConsumerGroupDescribeResponseGroup:
    """Return a group that cannot be described."""
    return ConsumerGroupDescribeResponseGroup(
        error_code=error, error_message=text, group_id=group_id, members=[]
    )


def describe_error_part(
    asked: Any, error: ErrorCode, _version: int
) -> ConsumerGroupDescribeResponseGroup:
    """Return the part of the response about a group whose partition is not available."""
    return describe_error(asked.group_id, error)
