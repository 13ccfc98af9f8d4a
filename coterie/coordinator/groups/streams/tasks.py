"""Tasks by their roles: what a member holds, what it shall hold, and what it says that it holds.

A task is a partition of a subtopology. An active task processes records and commits offsets;
standby and warm-up tasks keep copies of its state. Only active tasks have the epochs at which a
member received them [streams-groups/records].
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.protocol.messages.streams_group_heartbeat import StreamsHeartbeatTaskIds
from coterie.protocol.messages.streams_group_records import (
    CurrentTasks,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTargetAssignmentMemberValue,
    TargetTasks,
)

# Partitions of each subtopology, in ascending order; no subtopology has none.
Tasks = dict[str, tuple[int, ...]]
# Subtopology to partition to the epoch at which the member received the task.
ActiveTasks = dict[str, dict[int, int]]

_NO_ACTIVE: ActiveTasks = {}
_NO_TASKS: Tasks = {}


class HeldTasks(NamedTuple):
    """The tasks that a member has, or has to give up. They are replaced and not changed."""

    active: ActiveTasks = _NO_ACTIVE
    standby: Tasks = _NO_TASKS
    warmup: Tasks = _NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.active or self.standby or self.warmup)

    def without_epochs(self) -> "TaskRoles":
        """Return which tasks these are."""
        active = {each: tuple(sorted(epochs)) for each, epochs in self.active.items()}
        return TaskRoles(active, self.standby, self.warmup)


class TaskRoles(NamedTuple):
    """The tasks that a member shall have, or says that it has."""

    active: Tasks = _NO_TASKS
    standby: Tasks = _NO_TASKS
    warmup: Tasks = _NO_TASKS

    @property
    def size(self) -> int:
        """How many tasks these are."""
        return sum(len(each) for role in self for each in role.values())

    def has_any_of(self, held: HeldTasks) -> bool:
        """Return whether a task of `held` is among these in the same role."""
        return (
            _overlap(self.active, held.active)
            or _overlap(self.standby, held.standby)
            or _overlap(self.warmup, held.warmup)
        )

    def is_within(self, held: HeldTasks) -> bool:
        """Return whether each of these is a task of `held` in the same role."""
        return (
            _is_within(self.active, held.active)
            and _is_within(self.standby, held.standby)
            and _is_within(self.warmup, held.warmup)
        )


NO_TASKS = HeldTasks()
NO_ROLES = TaskRoles()


def _overlap(tasks: Tasks, others: Mapping[str, Iterable[int]]) -> bool:
    return any(not set(others.get(each, ())).isdisjoint(tasks[each]) for each in tasks)


def _is_within(tasks: Tasks, others: Mapping[str, Iterable[int]]) -> bool:
    # A subtopology that is named without a partition has to be among the others, as in Kafka.
    return all(
        each in others and set(others[each]).issuperset(indexes) for each, indexes in tasks.items()
    )


# -- in requests and responses ---------------------------------------------------------------------


def reported_tasks(
    active: list[StreamsHeartbeatTaskIds] | None,
    standby: list[StreamsHeartbeatTaskIds] | None,
    warmup: list[StreamsHeartbeatTaskIds] | None,
) -> TaskRoles | None:
    """Return what a heartbeat says of the tasks of its member; None if it does not say."""
    if active is None or standby is None or warmup is None:
        return None
    return TaskRoles(*(_reported(role) for role in (active, standby, warmup)))


def _reported(listed: list[StreamsHeartbeatTaskIds]) -> Tasks:
    found: dict[str, set[int]] = {}
    for each in listed:
        found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {each: tuple(sorted(indexes)) for each, indexes in found.items()}


def response_tasks(tasks: Mapping[str, Iterable[int]]) -> list[StreamsHeartbeatTaskIds]:
    """Return tasks of one role as the answer to a heartbeat has them."""
    return [
        StreamsHeartbeatTaskIds(subtopology_id=each, partitions=sorted(indexes))
        for each, indexes in sorted(tasks.items())
    ]


# -- in records ------------------------------------------------------------------------------------


def target_of(value: StreamsGroupTargetAssignmentMemberValue | None) -> TaskRoles:
    """Return the tasks of a logged target; none without a value."""
    if value is None:
        return NO_ROLES
    return TaskRoles(
        *(
            {each.subtopology_id: tuple(sorted(each.partitions)) for each in role}
            for role in (value.active_tasks, value.standby_tasks, value.warmup_tasks)
        )
    )


def target_value(tasks: TaskRoles) -> StreamsGroupTargetAssignmentMemberValue:
    """Return a target as it is logged."""
    active, standby, warmup = (
        [
            TargetTasks(subtopology_id=each, partitions=list(indexes))
            for each, indexes in sorted(role.items())
        ]
        for role in tasks
    )
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
    )


def held_tasks(
    active: list[CurrentTasks],
    standby: list[CurrentTasks],
    warmup: list[CurrentTasks],
    epoch: int,
) -> HeldTasks:
    """Return logged tasks; active ones without epochs have `epoch`."""
    if not (active or standby or warmup):
        return NO_TASKS
    return HeldTasks(
        {each.subtopology_id: _with_epochs(each, epoch) for each in active},
        *(
            {each.subtopology_id: tuple(sorted(each.partitions)) for each in role}
            for role in (standby, warmup)
        ),
    )


def _with_epochs(tasks: CurrentTasks, epoch: int) -> dict[int, int]:
    epochs = tasks.assignment_epochs
    if epochs is None or len(epochs) != len(tasks.partitions):
        epochs = [epoch] * len(tasks.partitions)
    return dict(zip(tasks.partitions, epochs, strict=True))


def current_value(
    epoch: int, previous_epoch: int, state: int, assigned: HeldTasks, pending: HeldTasks
) -> StreamsGroupCurrentMemberAssignmentValue:
    """Return the current assignment of a member as it is logged."""
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous_epoch,
        state=state,
        active_tasks=_logged_active(assigned.active),
        standby_tasks=_logged(assigned.standby),
        warmup_tasks=_logged(assigned.warmup),
        active_tasks_pending_revocation=_logged_active(pending.active),
        standby_tasks_pending_revocation=_logged(pending.standby),
        warmup_tasks_pending_revocation=_logged(pending.warmup),
    )


def _logged_active(tasks: ActiveTasks) -> list[CurrentTasks]:
    return [
        CurrentTasks(
            subtopology_id=each,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[index] for index in sorted(epochs)],
        )
        for each, epochs in sorted(tasks.items())
    ]


def _logged(tasks: Tasks) -> list[CurrentTasks]:
    return [
        CurrentTasks(subtopology_id=each, partitions=list(indexes))
        for each, indexes in sorted(tasks.items())
    ]
