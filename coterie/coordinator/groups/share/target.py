"""The target assignment of a share group, and how a member takes it over.

There is no timer: the first heartbeat after the assignment interval computes the target. Only
initialized partitions are assigned [share-groups/target].
"""

from collections.abc import Mapping, Sequence

from coterie.assignors.simple import MemberShares, Reader, share_simple
from coterie.coordinator.groups.config import SHARE_ASSIGNOR
from coterie.coordinator.groups.epochs import is_target_due
from coterie.coordinator.groups.recorded.target import (
    Computation,
    LoggedTarget,
    compute_or_begin,
    compute_some,
    note_convergence,
    write_targets,
)
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import Partitions, ShareMember, logged_partitions
from coterie.coordinator.groups.share.states import MEMBER_STABLE
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)

# The size of the largest target that is computed with the heartbeat that needs it, and how much of
# a larger one is computed in one part: some five milliseconds.
_COMPUTED_AT_ONCE = 1_500
_COMPUTED_TOGETHER = 1_500


class TargetComputation(Computation):
    """The target of a share group.

    Attributes:
        shares: the partitions of each member, once it has ended.
    """

    __slots__ = ("shares",)

    def __init__(self, group: ShareGroup) -> None:
        """Begin to compute the target of a group."""
        super().__init__(group.epoch)
        self.shares: MemberShares = {}
        readers = {
            member.member_id: Reader(_topic_ids(group, member), group.target(member.member_id))
            for member in group.assigned_members()
        }
        assignable = _assignable(group)
        self.size = sum(map(len, assignable.values())) + len(readers)
        self._work = share_simple(
            readers, assignable, self.shares, homogeneous=group.is_homogeneous()
        )


def update_target(step: Step) -> None:
    """Compute and write a new target if one is due, or begin with a large one.

    [share-groups/target]
    """
    group = step.group
    interval_ms = step.partition.share_settings(group.group_id).assignment_interval_ms
    if group.computation is None and is_target_due(
        group.epoch, group.target_epoch, group.target_ms, interval_ms, step.now_ms
    ):
        compute_or_begin(step, TargetComputation(group), _COMPUTED_AT_ONCE, _write)


def compute_part(step: Step) -> None:
    """Compute a part of a large target.

    If its records do not fit a batch, the next heartbeat that needs the target begins again.
    """
    compute_some(step, TimerKind.TARGET, _COMPUTED_TOGETHER, _write)


def _write(step: Step, computation: TargetComputation) -> None:
    targets = {
        member_id: {topic: tuple(sorted(each)) for topic, each in share.items()}
        for member_id, share in computation.shares.items()
    }
    write_targets(step, computation, targets, _LOGGED, SHARE_ASSIGNOR)


def _value(target: Partitions) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(topic_partitions=logged_partitions(target))


def _places(target: Partitions) -> Partitions:
    return target


_LOGGED = LoggedTarget(_value, _places, ShareGroupTargetAssignmentMetadataValue)


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
        at_target = group.target_epoch == group.epoch
        if (
            is_new
            and at_target
            and all(each.epoch == group.epoch for each in group.members.values())
        ):
            note_convergence(step)
