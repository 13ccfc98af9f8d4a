"""The upgrade of a classic group: a member of the consumer protocol joins it.

[consumer-groups/upgrade]
"""

from coterie.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from coterie.coordinator.groups.classic.group_record import group_tombstone
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.members import start_session
from coterie.coordinator.groups.consumer.metadata_hash import metadata_hash
from coterie.coordinator.groups.consumer.records import current_value, target_value
from coterie.coordinator.groups.consumer.refusal import Refusal
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)

# The policies under which a group of classic members becomes a consumer group.
_UPGRADING = frozenset({"bidirectional", "upgrade"})


def upgrade(step: Step, before: Group) -> None:
    """Write a classic group with members as a consumer group of the same members.

    Its generation becomes its epoch, and the assignment of each member its target, so that nobody
    has to give anything up. A new target is due at once.

    Raises:
        Refusal: the group stays a classic one.
    """
    config = step.partition.config
    if config.consumer.migration_policy not in _UPGRADING:
        raise _refused(before, "online upgrade is disabled.")
    if before.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(before, "the group does not use the consumer embedded protocol.")
    if len(before.members) > config.consumer.max_size:
        raise _refused(before, "the group size exceeds the consumer group maximum size.")
    name = before.protocol_name
    if name is None or any(each.metadata_or_none(name) is None for each in before.members.values()):
        # Its first join phase is not over. Kafka fails here, too, and the client asks again.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    group, group_id, epoch = step.group, before.group_id, before.generation_id
    topics = step.partition.topics
    assert step.creates, f"{group} takes the place of {before}"
    assert not group.members, f"{group} is new"
    converted = [_Converted(before, each, name, topics) for each in before.members.values()]
    partitions = [
        (topic_id, index)
        for each in converted
        for topic_id, indexes in each.partitions.items()
        for index in indexes
    ]
    if len(partitions) != len(set(partitions)):
        # A Kafka could not load the group.
        raise _refused(before, "a partition is assigned to two members.")
    step.write(group_tombstone(group_id))
    for each in converted:
        key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each.member_id)
        step.set(key, each.subscription)
    topics_hash = metadata_hash(group.subscribed_topics(), topics)
    step.set(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash),
    )
    for each in converted:
        target = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each.member_id)
        step.set(target, target_value(each.partitions))
    step.set(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )
    for each in converted:
        assigned = {
            topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in each.partitions.items()
        }
        step.set(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each.member_id),
            current_value(epoch, epoch, MemberState.STABLE, assigned, {}),
        )
    assert len(group.members) == len(before.members), f"each member of {before} is converted"
    assert group.classic_count == len(group.members), f"members of {group} changed their protocol"
    assert group.settled == len(group.members), f"a member of {group} has to give something up"
    step.facts.append(
        GroupTypeChanged(
            at_ms=step.now_ms,
            group_type=group.group_type,
            previous_type=before.group_type,
            epoch=epoch,
            member_count=len(group.members),
        )
    )


def start_classic_sessions(step: Step) -> None:
    """Start the sessions of the members that a group had before it was upgraded.

    The classic group has cancelled its timers.
    """
    for member in step.group.members.values():
        if member.classic is not None:
            start_session(step, member, member.classic.session_timeout_ms)


class _Converted:
    """A classic member as a member of a consumer group.

    Attributes:
        member_id: its id.
        subscription: its subscription as it is logged.
        partitions: its assignment.
    """

    def __init__(self, group: Group, member: Member, protocol: str, topics: TopicsImage) -> None:
        self.member_id = member.member_id
        try:
            subscription = decode_subscription(member.metadata(protocol))
            assignment = decode_assignment(member.assignment) if member.assignment else None
        except MalformedFrame as error:
            raise _refused(group, "the embedded consumer protocol is malformed.") from error
        if assignment is not None and assignment.user_data:
            raise _refused(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade.",
            )
        self.subscription = ConsumerGroupMemberMetadataValue(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(set(subscription.topics)),
            subscribed_topic_regex="",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=None,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in member.protocols
                ],
            ),
        )
        self.partitions = (
            {} if assignment is None else partitions_by_id(assignment.assigned_partitions, topics)
        )


def partitions_by_id(named: list[TopicPartition], topics: TopicsImage) -> Partitions:
    """Return partitions by topic id; those of topics that do not exist are left out."""
    found: dict[bytes, set[int]] = {}
    for each in named:
        topic = topics.by_name.get(each.topic)
        if topic is not None:
            found.setdefault(topic.topic_id, set()).update(each.partitions)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items()}


def _refused(group: Group, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )
