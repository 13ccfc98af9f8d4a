"""The target assignment of a share group, and how a member takes it over.

There is no timer: the first heartbeat after the assignment interval computes the target. Only
initialized partitions are assigned [share-groups/target].
"""

from collections.abc import Mapping, Sequence

from coterie.assignors.simple import Reader, assign_simple
from coterie.coordinator.groups.epochs import is_target_due
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import Partitions, ShareMember, logged_partitions
from coterie.coordinator.groups.share.states import MEMBER_STABLE
from coterie.coordinator.groups.share.step import Step
from coterie.protocol.messages.consumer_group_facts import TargetComputed
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

# Kafka's name of the only assignor.
ASSIGNOR = "simple"


def update_target(step: Step) -> None:
    """Compute and write a new target if one is due."""
    group = step.group
    interval_ms = step.partition.share_settings(group.group_id).assignment_interval_ms
    if not is_target_due(
        group.epoch, group.target_epoch, group.target_ms, interval_ms, step.now_ms
    ):
        return
    changed = moved = 0
    for member_id, target in _computed(group).items():
        before = group.target(member_id)
        if target == before and member_id in group.target_values:
            continue
        changed += 1
        moved += sum(len(set(each) - set(target.get(topic, ()))) for topic, each in before.items())
        step.set(
            ShareGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id),
            ShareGroupTargetAssignmentMemberValue(topic_partitions=logged_partitions(target)),
        )
    step.set(
        ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=group.epoch, assignment_timestamp=step.now_ms
        ),
    )
    step.facts.append(
        TargetComputed(
            at_ms=step.now_ms,
            epoch=group.epoch,
            assignor=ASSIGNOR,
            member_count=len(group.members),
            changed_members=changed,
            moved_partitions=moved,
        )
    )


def _computed(group: ShareGroup) -> dict[str, Partitions]:
    """Return the target of each member, in the order in which they joined."""
    # As in Kafka, a new member comes last among those of one bucket.
    ordered = sorted(group.ordered_members(), key=lambda member: member.current is None)
    readers = {
        member.member_id: Reader(_topic_ids(group, member), group.target(member.member_id))
        for member in ordered
    }
    shares = assign_simple(readers, _assignable(group), homogeneous=group.is_homogeneous())
    return {
        member_id: {topic: tuple(sorted(each)) for topic, each in shares[member_id].items()}
        for member_id in group.members
    }


def _topic_ids(group: ShareGroup, member: ShareMember) -> list[bytes]:
    by_name = group.topics.by_name
    return [by_name[name].topic_id for name in sorted(member.names) if name in by_name]


def _assignable(group: ShareGroup) -> Mapping[bytes, Sequence[int]]:
    """Return the initialized partitions of the topics that exist."""
    by_id = group.topics.by_id
    return {
        topic_id: sorted(each for each in topic.partitions if each < by_id[topic_id].partitions)
        for topic_id, topic in group.state_partitions.initialized.items()
        if topic_id in by_id
    }


def take_target(step: Step, member: ShareMember) -> None:
    """Let a member have its part of the target at once, without topics that it does not read.

    [share-groups/reconciliation]
    """
    group = step.group
    subscribed = frozenset(_topic_ids(group, member))
    epoch, previous, assigned = member.epoch, member.previous_epoch, member.assigned
    if member.current is None or epoch != group.target_epoch:
        epoch, previous = group.target_epoch, epoch
        assigned = group.target(member.member_id)
    assigned = {topic: each for topic, each in assigned.items() if topic in subscribed}
    if member.current is None or (epoch, assigned) != (member.epoch, member.assigned):
        step.set(
            ShareGroupCurrentMemberAssignmentKey(
                group_id=group.group_id, member_id=member.member_id
            ),
            ShareGroupCurrentMemberAssignmentValue(
                member_epoch=epoch,
                previous_member_epoch=previous,
                state=MEMBER_STABLE,
                assigned_partitions=logged_partitions(assigned),
            ),
        )
