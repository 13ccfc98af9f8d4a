"""ConsumerGroupDescribe: consumer groups for administrators [consumer-groups/describe].

A large group has tens of thousands of partitions. `SeenConsumerGroup` keeps what the records said
of it when it was asked for, which is never changed but replaced; `described_in_steps` makes the
description of that, whatever happens to the group meanwhile.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import NamedTuple

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import partitions_of
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import AskedGroup, described
from coterie.coordinator.topic_image import TopicImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    DescribedAssignment,
    DescribedTopicPartitions,
)
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
)

# The types of members on the wire.
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1

# That of a member of which the log has none, as only one of other software may.
_NO_SUBSCRIPTION = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=[],
    subscribed_topic_regex=None,
    server_assignor=None,
)


class DescribedConsumerGroup(AskedGroup):
    """One group of a ConsumerGroupDescribe request."""

    GROUPS = ConsumerGroup
    PART = ConsumerGroupDescribeResponseGroup

    __slots__ = ()

    def description(self, partition: PartitionState, group: ConsumerGroup) -> "SeenConsumerGroup":
        """Return what there is to describe of it."""
        assert group.exists, f"{group} was given up and is in its partition"
        default = partition.config.consumer.assignors[0]
        whole = ConsumerGroupDescribeResponseGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.preferred_assignor(default),
            members=[],
            authorized_operations=self.operations,
        )
        members = [_seen(group, member) for member in group.ordered_members()]
        return SeenConsumerGroup(whole, members, dict(group.topics.by_id))


class _SeenMember(NamedTuple):
    """A member as it was when its group was asked for."""

    member_id: str
    epoch: int
    subscription: ConsumerGroupMemberMetadataValue | None
    assigned: Owned
    pending: Owned
    target: ConsumerGroupTargetAssignmentMemberValue | None


class SeenConsumerGroup(NamedTuple):
    """A group as it was when it was asked for.

    Attributes:
        described: its description, without members.
        members: they, in the order of the description.
        topics: the topics of the cluster at that time.
    """

    described: ConsumerGroupDescribeResponseGroup
    members: list[_SeenMember]
    topics: Mapping[bytes, TopicImage]


class SeenConsumerGroups(NamedTuple):
    """The groups of a request; of one whose partition is not available, the error."""

    groups: list[SeenConsumerGroup | ConsumerGroupDescribeResponseGroup]


def described_in_steps(
    seen: SeenConsumerGroup | ConsumerGroupDescribeResponseGroup,
) -> Generator[None, None, ConsumerGroupDescribeResponseGroup]:
    """Return one group: its epochs, and what its members have and shall have.

    A step describes a member.
    """
    if not isinstance(seen, SeenConsumerGroup):
        return seen
    whole = seen.described
    for member in seen.members:
        whole.members.append(_described(member, seen.topics))
        yield
    assert len(whole.members) == len(seen.members), "a group is described once"
    return whole


def describe_consumer_group(
    partition: PartitionState, asked: DescribedConsumerGroup
) -> ConsumerGroupDescribeResponseGroup:
    """Return one group at once."""
    seen = described(partition, asked)
    for _ in described_in_steps(seen):
        pass
    return seen.described if isinstance(seen, SeenConsumerGroup) else seen


def _seen(group: ConsumerGroup, member: ConsumerMember) -> _SeenMember:
    member_id = member.member_id
    assert group.members.get(member_id) is member, f"{member} is not in {group}"
    return _SeenMember(
        member_id,
        member.epoch,
        member.subscription,
        member.assigned,
        member.pending,
        group.target_values.get(member_id),
    )


def _described(
    member: _SeenMember, topics: Mapping[bytes, TopicImage]
) -> ConsumerGroupDescribeResponseMember:
    owned: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.pending):
        for topic_id, indexes in part.items():
            owned.setdefault(topic_id, []).extend(indexes)
    subscription = member.subscription or _NO_SUBSCRIPTION
    is_classic = subscription.classic_member_metadata is not None
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=subscription.subscribed_topic_names,
        subscribed_topic_regex=subscription.subscribed_topic_regex or "",
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(partitions_of(member.target), topics),
        member_type=_CLASSIC_MEMBER if is_classic else _CONSUMER_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], topics: Mapping[bytes, TopicImage]
) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            # A large group has tens of thousands of them.
            DescribedTopicPartitions.of(topic_id, topics[topic_id].name, sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if topic_id in topics
        ]
    )
