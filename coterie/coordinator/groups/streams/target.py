"""The target of a streams group: when one is due, and how it becomes the target of the group.

The first target of a group that was without members waits for the initial rebalance delay, whose
timer computes it. Later ones are computed by the first heartbeat after the assignment interval
[streams-groups/target].
"""

from coterie.assignors.tasks import TaskAssignment, TaskMember, TaskSubtopology, share_tasks
from coterie.coordinator.groups.config import STREAMS_ASSIGNOR
from coterie.coordinator.groups.epochs import is_target_due
from coterie.coordinator.groups.recorded.target import (
    Computation,
    LoggedTarget,
    compute_or_begin,
    compute_some,
    write_targets,
)
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.statuses import INITIAL_DELAY, INTERVAL
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.groups.streams.tasks import TaskRoles, Tasks, target_value
from coterie.coordinator.groups.streams.timers import TimerKind
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupTargetAssignmentMetadataValue,
)

# The size of the largest target that is computed at once, and how much of a larger one is computed
# in one part: some five milliseconds.
_COMPUTED_AT_ONCE = 1_000
_COMPUTED_TOGETHER = 1_000


class TargetComputation(Computation):
    """The target of a streams group.

    Attributes:
        found: the tasks of each member, once it has ended.
    """

    __slots__ = ("found",)

    def __init__(self, group: StreamsGroup, configured: ConfiguredTopology, replicas: int) -> None:
        """Begin to compute the target of a group.

        Args:
            group: the group.
            configured: its topology; as long as that is not ready nobody has tasks.
            replicas: how many standby tasks each stateful task has.
        """
        super().__init__(group.epoch)
        self.found: dict[str, TaskAssignment] = {}
        ordered = group.assigned_members()
        if not configured.is_ready:
            self.found = {each.member_id: TaskAssignment({}, {}, {}) for each in ordered}
            return
        members = []
        for each in ordered:
            before = group.target(each.member_id)
            members.append(
                TaskMember(each.member_id, each.process_id, before.active, before.standby)
            )
        subtopologies = {
            each: TaskSubtopology(found.tasks, found.stateful)
            for each, found in configured.subtopologies.items()
        }
        tasks = sum(each.tasks for each in subtopologies.values())
        self.size = len(members) + tasks * (1 + replicas)
        self._work = share_tasks(members, subtopologies, self.found, standby_replicas=replicas)


def begin_delay(step: Step) -> None:
    """Let the initial rebalance delay begin, if it does not run: the first member joins."""
    group = step.group
    delay_ms = step.partition.streams_settings(group.group_id).initial_rebalance_delay_ms
    if delay_ms > 0 and not group.delay_ends_ms:
        group.delay_ends_ms = step.now_ms + delay_ms
        step.arm(TimerKind.DELAY, "", group.delay_ends_ms)


def update_target(step: Step, configured: ConfiguredTopology, *, is_first: bool) -> str | None:
    """Compute and write a new target if one is due, or begin with a large one.

    Args:
        step: a step of the group.
        configured: the topology of the group with its tasks.
        is_first: whether the group had no members before this step.

    Returns:
        Why a target is delayed; None if it is not, or if none is needed.
    """
    group = step.group
    if group.target_epoch >= group.epoch:
        return None
    settings = step.partition.streams_settings(group.group_id)
    if group.delay_ends_ms or (is_first and settings.initial_rebalance_delay_ms > 0):
        return INITIAL_DELAY
    if group.computation is not None:
        return None
    if not is_target_due(
        group.epoch,
        group.target_epoch,
        group.target_ms,
        settings.assignment_interval_ms,
        step.now_ms,
    ):
        return INTERVAL
    _compute(step, configured)
    return None


def _compute(step: Step, configured: ConfiguredTopology) -> None:
    replicas = step.partition.streams_settings(step.group.group_id).num_standby_replicas
    computation = TargetComputation(step.group, configured, replicas)
    compute_or_begin(step, computation, _COMPUTED_AT_ONCE, _write)


def end_delay(step: Step) -> None:
    """Compute the first target: the initial rebalance delay is over.

    After a change of the topics the next heartbeat computes it.
    """
    group = step.group
    group.delay_ends_ms = 0
    if group.members and group.epoch > group.target_epoch and group.configured is not None:
        _compute(step, group.configured)
        if step.fits() and step.computation is not None:
            group.computation = step.computation
            step.arm(TimerKind.TARGET, "", step.now_ms)


def compute_part(step: Step) -> None:
    """Compute a part of a large target.

    If its records do not fit a batch, the next heartbeat that needs the target begins again.
    """
    compute_some(step, TimerKind.TARGET, _COMPUTED_TOGETHER, _write)


def _write(step: Step, computation: TargetComputation) -> None:
    targets = {
        member_id: TaskRoles(*(_tasks(role) for role in (each.active, each.standby, each.warmup)))
        for member_id, each in computation.found.items()
    }
    write_targets(step, computation, targets, _LOGGED, STREAMS_ASSIGNOR)


def _tasks(role: dict[str, list[int]]) -> Tasks:
    return {each: tuple(sorted(indexes)) for each, indexes in role.items() if indexes}


def _active(target: TaskRoles) -> Tasks:
    return target.active


_LOGGED = LoggedTarget(target_value, _active, StreamsGroupTargetAssignmentMetadataValue)
