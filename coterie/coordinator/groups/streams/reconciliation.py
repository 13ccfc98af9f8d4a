"""Reconciliation: how one member comes from the tasks that it has to its target.

`states.py` describes the states. The table [streams-groups/reconciliation]:

| state            | what the member says                  | what happens                       |
|------------------|---------------------------------------|------------------------------------|
| STABLE           | the target is newer                   | `_next` at its epoch               |
| UNREVOKED_TASKS  | it has none of what it has to give up | `_next` at its epoch and one more  |
|                  | anything else                         | it is waited for                   |
| UNRELEASED_TASKS | anything                              | `_next` at its epoch               |
| UNKNOWN          | it has nothing                        | `_next` at the epoch of the target |
|                  | anything else                         | it is fenced                       |

`_next` keeps what is in the target, and asks for what is not: UNREVOKED_TASKS. If there is nothing
to ask for, or the member says that it has none of that, it goes to the epoch of the target with
what it keeps and what is free: UNRELEASED_TASKS if something is not, else STABLE.

An active task is free if no member has it as an active one and the process of the member has no
copy of it; a copy is free if the process does not have the task in any role.

These functions read the group and change nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.states import MemberState
from coterie.coordinator.groups.streams.tasks import (
    NO_TASKS,
    ActiveTasks,
    HeldTasks,
    TaskRoles,
    Tasks,
)


class Reconciled(NamedTuple):
    """Where a member is after a step."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: HeldTasks
    pending: HeldTasks


class UnknownState(Exception):  # noqa: N818 - it describes the member
    """The member is in a state of other software, and has to begin without tasks."""


class _Difference(NamedTuple):
    """How the tasks of one role differ from the target."""

    keep: Tasks
    revoke: Tasks
    add: Tasks
    waits: bool


def reconcile(
    group: StreamsGroup, member: StreamsMember, tasks: TaskRoles | None
) -> Reconciled | None:
    """Return where a member is after its heartbeat; None if it stays where it is.

    Args:
        group: the group; its target is the one to which the member goes.
        member: the member.
        tasks: what it says that it has; None if it does not say.

    Raises:
        UnknownState: it has to abandon its tasks first.
    """
    epoch, state = member.epoch, member.state
    if state is MemberState.STABLE:
        if member.is_settled(group.target_epoch):
            return None
    elif state is MemberState.UNREVOKED_TASKS:
        if tasks is None or tasks.has_any_of(member.pending):
            return None
        epoch += 1
    elif state is MemberState.UNKNOWN:
        if tasks is None or tasks.size:
            raise UnknownState
        epoch = group.target_epoch
    following = _next(group, member, epoch, tasks)
    now = member.epoch, member.previous_epoch, state, member.assigned, member.pending
    return None if member.current is not None and following == now else following


def _next(
    group: StreamsGroup, member: StreamsMember, epoch: int, tasks: TaskRoles | None
) -> Reconciled:
    """Go on to the target: first give up what is not in it, then take what is free."""
    target, holders, process = group.target(member.member_id), group.holders, member.process_id

    def is_held(subtopology: str, index: int) -> bool:
        """Return whether an active task is not free."""
        return holders.is_active(subtopology, index) or holders.has_copy(
            subtopology, index, process
        )

    def is_here(subtopology: str, index: int) -> bool:
        """Return whether the process has a task in any role."""
        return holders.is_active_in(subtopology, index, process) or holders.has_copy(
            subtopology, index, process
        )

    assigned = member.assigned
    active = _difference(assigned.active, target.active, is_held)
    standby = _difference(assigned.standby, target.standby, is_here)
    warmup = _difference(assigned.warmup, target.warmup, is_here)
    keep = HeldTasks(_with_epochs(active.keep, assigned.active), standby.keep, warmup.keep)
    revoke = HeldTasks(_with_epochs(active.revoke, assigned.active), standby.revoke, warmup.revoke)
    if not revoke.is_empty and (tasks is None or tasks.has_any_of(revoke)):
        return Reconciled(epoch, member.epoch, MemberState.UNREVOKED_TASKS, keep, revoke)
    epoch = group.target_epoch
    has_all = not (active.waits or standby.waits or warmup.waits)
    taken = HeldTasks(
        _with_added(keep.active, active.add, epoch),
        _merged(standby.keep, standby.add),
        _merged(warmup.keep, warmup.add),
    )
    state = MemberState.STABLE if has_all else MemberState.UNRELEASED_TASKS
    return Reconciled(epoch, member.epoch, state, taken, NO_TASKS)


def _difference(
    has: Mapping[str, Iterable[int]], target: Tasks, is_taken: Callable[[str, int], bool]
) -> _Difference:
    keep: Tasks = {}
    revoke: Tasks = {}
    add: Tasks = {}
    waits = False
    for each in {**target, **dict.fromkeys(has, ())}:
        wanted, present = frozenset(target.get(each, ())), frozenset(has.get(each, ()))
        missing = wanted - present
        free = [index for index in missing if not is_taken(each, index)]
        waits = waits or len(free) < len(missing)
        for table, indexes in ((keep, present & wanted), (revoke, present - wanted), (add, free)):
            if indexes:
                table[each] = tuple(sorted(indexes))
    return _Difference(keep, revoke, add, waits)


def _with_epochs(tasks: Tasks, epochs: ActiveTasks) -> ActiveTasks:
    return {
        each: {index: epochs[each][index] for index in indexes} for each, indexes in tasks.items()
    }


def _with_added(keep: ActiveTasks, add: Tasks, epoch: int) -> ActiveTasks:
    taken = {each: dict(epochs) for each, epochs in keep.items()}
    for each, indexes in add.items():
        taken.setdefault(each, {}).update(dict.fromkeys(indexes, epoch))
    return taken


def _merged(keep: Tasks, add: Tasks) -> Tasks:
    return {
        each: tuple(sorted({*keep.get(each, ()), *add.get(each, ())})) for each in {**keep, **add}
    }
