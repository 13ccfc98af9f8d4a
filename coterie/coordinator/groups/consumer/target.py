"""The target assignment: when one is due, and how it becomes the target of the group.

There is no timer. The first heartbeat after the assignment interval computes the target
[consumer-groups/target].

That of a large group takes long. It is computed in parts, between which other requests are handled;
a timer that is due at once starts each part. Its members go to the target before it meanwhile, as
within the assignment interval [consumer-groups/large-target].
"""

from coterie.coordinator.groups.consumer.computation import Later, TargetComputation
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import is_target_due
from coterie.coordinator.groups.recorded.target import compute_or_begin, compute_some, note_target
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.messages.log_records import encode_key

# The size of the largest target that is computed with the heartbeat that needs it: some five
# milliseconds.
_COMPUTED_AT_ONCE = 20_000
# How much of a larger one is computed in one part: some five milliseconds, too.
_COMPUTED_TOGETHER = 20_000


def update_target(step: Step, member: ConsumerMember) -> None:
    """Compute and write a new target if one is due.

    Args:
        step: a step of the group. It keeps the computation of a target that takes long, which
            `begin_computation` begins.
        member: the member whose request it is.
    """
    group = step.group
    if group.computation is not None:
        return
    interval_ms = step.partition.consumer_settings(group.group_id).assignment_interval_ms
    if not is_target_due(
        group.epoch, group.target_epoch, group.target_ms, interval_ms, step.now_ms
    ):
        return
    if group.too_large_epoch == group.epoch:
        step.needs_too_much = True
        return
    default = step.partition.config.consumer.assignors[0]
    assignor = group.preferred_assignor(default, member.assignor)
    if step.is_long:
        step.computation = Later(assignor)
        return
    compute_or_begin(step, TargetComputation(group, assignor), _COMPUTED_AT_ONCE, _write)


def compute_part(step: Step) -> None:
    """Compute a part of a large target.

    If its records do not fit a batch, heartbeats that need it are refused, as those that compute a
    target at once are.
    """
    group = step.group
    if isinstance(group.computation, Later) and group.members:
        group.computation = TargetComputation(group, group.computation.assignor)
    computation = group.computation
    if isinstance(computation, Later):
        group.computation = None
    elif compute_some(step, TimerKind.TARGET, _COMPUTED_TOGETHER, _write):
        group.too_large_epoch = computation.epoch


def _write(step: Step, computation: TargetComputation) -> None:
    """Write the target of each member whose target changes, in the order in which they joined."""
    group = step.group
    group_id = group.group_id
    assert computation.epoch >= group.target_epoch, f"the target of {group} gets older"
    changed = moved = 0
    for member_id, member in group.members.items():
        change = computation.change(member)
        if change is None and member_id != step.took_over:
            continue
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        changed += 1
        if change is not None:
            moved += change.moved
            step.set(key, change.value, (encode_key(key), change.encoded))
        else:
            # As in Kafka, an id that has taken the place of another one has had no target.
            step.set(key, group.target_values[member_id])
    step.set(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=computation.epoch, assignment_timestamp=step.now_ms
        ),
    )
    note_target(step, computation.epoch, computation.assignor, changed, moved)
