"""The target assignment of a share group, and how a member takes it over.

There is no timer: the first heartbeat after the assignment interval computes the target. Only
initialized partitions are assigned [share-groups/target].
"""

from collections.abc import Mapping, Sequence

from coterie.assignors.simple import MemberShares, Reader, share_simple
from coterie.coordinator.groups.config import SHARE_ASSIGNOR
from coterie.coordinator.groups.epochs import is_target_due
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import ShareMember, logged_partitions
from coterie.coordinator.groups.share.states import MEMBER_STABLE
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.protocol.messages.consumer_group_facts import GroupConverged, TargetComputed
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

# The size of the largest target that is computed with the heartbeat that needs it, and how much of
# a larger one is computed in one part: some five milliseconds.
_COMPUTED_AT_ONCE = 1_500
_COMPUTED_TOGETHER = 1_500


class TargetComputation:
    """The target of a group at one epoch, as far as it is computed.

    It sees the group as it was when it began.

    Attributes:
        epoch: the epoch of the group when it began, which will be that of the target.
        size: about how many subscriptions and partitions are to be handled.
        shares: the partitions of each member, once it has ended.
    """

    __slots__ = ("_work", "epoch", "shares", "size")

    def __init__(self, group: ShareGroup) -> None:
        """Begin to compute the target of a group."""
        self.epoch = group.epoch
        self.shares: MemberShares = {}
        # As in Kafka, a new member comes last among those of one bucket.
        ordered = sorted(group.ordered_members(), key=lambda member: member.current is None)
        readers = {
            member.member_id: Reader(_topic_ids(group, member), group.target(member.member_id))
            for member in ordered
        }
        assignable = _assignable(group)
        self.size = sum(map(len, assignable.values())) + len(readers)
        self._work = share_simple(
            readers, assignable, self.shares, homogeneous=group.is_homogeneous()
        )

    def go_on(self, most: int) -> bool:
        """Do about so much of the work; return whether there was none left."""
        done = 0
        for count in self._work:
            done += count
            if done >= most:
                return False
        return True


def update_target(step: Step) -> None:
    """Compute and write a new target if one is due.

    That of a large group is computed in parts, between which other requests are handled; a timer
    that is due at once starts each part, and `begin_computation` the first. Members go to the
    target before it meanwhile [share-groups/large-target].
    """
    group = step.group
    interval_ms = step.partition.share_settings(group.group_id).assignment_interval_ms
    if group.computation is not None or not is_target_due(
        group.epoch, group.target_epoch, group.target_ms, interval_ms, step.now_ms
    ):
        return
    computation = TargetComputation(group)
    if computation.size > _COMPUTED_AT_ONCE:
        step.computation = computation
    else:
        while not computation.go_on(_COMPUTED_AT_ONCE):
            pass
        _write(step, computation)


def begin_computation(step: Step) -> None:
    """Begin to compute a large target, after it is known that the records of the step fit."""
    if step.computation is not None:
        step.group.computation = step.computation
        step.arm(TimerKind.TARGET, "", step.now_ms)


def compute_some(step: Step) -> None:
    """Compute a part of a large target, and write the target after the last one.

    Members that have joined since have none, and those that are gone have lost theirs; a later
    epoch needs a target of its own.
    """
    group = step.group
    computation = group.computation
    if computation is None:
        return
    if not group.members:
        group.computation = None
    elif not computation.go_on(_COMPUTED_TOGETHER):
        step.arm(TimerKind.TARGET, "", step.now_ms)
    else:
        group.computation = None
        _write(step, computation)
        # If they do not fit, the next heartbeat that needs the target begins again.
        step.fits()


def _write(step: Step, computation: TargetComputation) -> None:
    """Write the target of each member whose target changes, in the order in which they joined."""
    group = step.group
    changed = moved = 0
    for member_id in group.members:
        share = computation.shares.get(member_id)
        if share is None:
            continue
        target = {topic: tuple(sorted(each)) for topic, each in share.items()}
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
            assignment_epoch=computation.epoch, assignment_timestamp=step.now_ms
        ),
    )
    step.facts.append(
        TargetComputed(
            at_ms=step.now_ms,
            epoch=computation.epoch,
            assignor=SHARE_ASSIGNOR,
            member_count=len(group.members),
            changed_members=changed,
            moved_partitions=moved,
        )
    )


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
        is_new = member.current is None or epoch != member.epoch
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
        assert member.epoch == epoch, f"{member} is at another epoch than its record"
        assert member.epoch <= group.epoch, f"{member} is ahead of {group}"
        if is_new:
            _note_convergence(step)


def _note_convergence(step: Step) -> None:
    """Note that every member has its part of the target, if the target is that of the epoch."""
    group = step.group
    if group.target_epoch == group.epoch and all(
        each.epoch == group.epoch for each in group.members.values()
    ):
        step.facts.append(
            GroupConverged(
                at_ms=step.now_ms,
                epoch=group.epoch,
                member_count=len(group.members),
                converged_ms=step.now_ms - group.bumped_ms if group.bumped_ms else -1,
            )
        )
