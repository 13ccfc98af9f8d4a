"""The target assignment: when one is due, and what the assignor makes of the group.

There is no timer. The first heartbeat after the assignment interval computes the target
[consumer-groups/target].
"""

from collections.abc import Callable, Mapping, Sequence

from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.assignors.range import assign_range
from coterie.assignors.uniform import assign_uniform_by_ids
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import target_value
from coterie.coordinator.groups.consumer.step import Step
from coterie.protocol.messages.consumer_group_facts import TargetComputed
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class _Topics:
    """The topics of a group that exist, as an assignor needs them."""

    def __init__(self, group: ConsumerGroup) -> None:
        by_name = group.topics.by_name
        found = [by_name[name] for name in group.subscribed_topics() if name in by_name]
        self.counts = {topic.name: topic.partitions for topic in found}
        self.ids = {topic.name: topic.topic_id for topic in found}
        self.names = {topic.topic_id: topic.name for topic in found}


Assign = Callable[[_Topics, Sequence[MemberSubscription], bool], dict[str, list[TopicPartition]]]

# The assignors of the coordinator by Kafka's names of them.
ASSIGNORS: Mapping[str, Assign] = {
    "uniform": lambda topics, members, homogeneous: assign_uniform_by_ids(
        topics.counts, topics.ids, members, homogeneous=homogeneous
    ),
    "range": lambda topics, members, _: assign_range(topics.counts, members),
}


def update_target(step: Step, member: ConsumerMember) -> None:
    """Compute and write a new target if one is due.

    Args:
        step: a step of the group.
        member: the member whose request it is.
    """
    group = step.group
    if group.target_epoch >= group.epoch:
        return
    interval_ms = step.partition.consumer_settings(group.group_id).assignment_interval_ms
    if group.target_ms and interval_ms and step.now_ms < group.target_ms + interval_ms:
        return
    default = step.partition.config.consumer.assignors[0]
    assignor = group.preferred_assignor(default, member.assignor)
    changed = moved = 0
    for member_id, target in _computed(group, ASSIGNORS[assignor]):
        # As in Kafka, an id that has taken the place of another one has had no target.
        if group.targets.get(member_id) != target or member_id == step.took_over:
            key = ConsumerGroupTargetAssignmentMemberKey(
                group_id=group.group_id, member_id=member_id
            )
            changed += 1
            moved += _lost(group.targets.get(member_id, {}), target)
            step.set(key, target_value(target))
    step.set(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=group.epoch, assignment_timestamp=step.now_ms
        ),
    )
    assert group.target_epoch == group.epoch, f"the target of {group} is of another epoch"
    assert group.targets.keys() >= group.members.keys(), f"each member of {group} has a target"
    step.facts.append(
        TargetComputed(
            at_ms=step.now_ms,
            epoch=group.epoch,
            assignor=assignor,
            member_count=len(group.members),
            changed_members=changed,
            moved_partitions=moved,
        )
    )


def _lost(before: Partitions, now: Partitions) -> int:
    """Return how many partitions a target has lost."""
    return sum(
        len(indexes) - len(frozenset(indexes) & frozenset(now.get(topic_id, ())))
        for topic_id, indexes in before.items()
    )


def _computed(group: ConsumerGroup, assign: Assign) -> list[tuple[str, Partitions]]:
    """Return the target of each member, in the order in which they joined."""
    topics = _Topics(group)
    members = [
        MemberSubscription(
            member.member_id,
            tuple(name for name in group.topics_of(member) if name in topics.counts),
            tuple(
                TopicPartition(topics.names[topic_id], index)
                for topic_id, indexes in group.targets.get(member.member_id, {}).items()
                if topic_id in topics.names
                for index in indexes
                if index < topics.counts[topics.names[topic_id]]
            ),
            group_instance_id=member.instance_id,
        )
        for member in _in_kafkas_order(group)
    ]
    assigned = assign(topics, members, group.is_homogeneous())
    everything = sum(topics.counts.values())
    assert sum(map(len, assigned.values())) == everything, f"a partition of {group} has one member"
    computed = []
    for member_id in group.members:
        target: dict[bytes, list[int]] = {}
        for topic, index in assigned[member_id]:
            target.setdefault(topics.ids[topic], []).append(index)
        partitions = {topic_id: tuple(sorted(each)) for topic_id, each in target.items()}
        computed.append((member_id, partitions))
    assert len(computed) == len(group.members), f"each member of {group} is assigned something"
    return computed


def _in_kafkas_order(group: ConsumerGroup) -> list[ConsumerMember]:
    """Return the members as they are listed, a new one last.

    The assignor puts them into a hash table; this order decides between ids of the same bucket.
    """
    return sorted(group.ordered_members(), key=lambda member: member.current is None)
