"""The computation of targets: in one part or in several, and what the journal says of it.

The target of a large group takes long. It is computed in parts, between which other requests are
handled; a timer that is due at once starts each part. It is that of the epoch at which it began,
and members go to the target before it meanwhile [consumer-groups/large-target].
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from coterie.assignors.shares import Work
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.protocol.messages.consumer_group_facts import GroupConverged, TargetComputed
from coterie.protocol.wire import Message

_NO_WORK: Work = iter(())


class Computation:
    """The target of a group at one epoch, as far as it is computed.

    It sees the group as it was when it began.

    Attributes:
        epoch: the epoch of the group when it began, which will be that of the target.
        size: about how much is to be handled.
    """

    __slots__ = ("_work", "epoch", "size")

    def __init__(self, epoch: int) -> None:
        """Begin at an epoch, without work."""
        self.epoch = epoch
        self.size = 0
        self._work = _NO_WORK

    def go_on(self, most: int) -> bool:
        """Do about so much of the work; return whether there was none left."""
        assert most > 0, "each part does something"
        done = 0
        for count in self._work:
            done += count
            if done >= most:
                return False
        return not done

    def finish(self) -> None:
        """Do all of the work that is left."""
        for _ in self._work:
            pass


C = TypeVar("C", bound=Computation)


class LoggedTarget(NamedTuple):
    """How a type of groups logs targets.

    Attributes:
        value: makes the value of the target of a member.
        places: returns the partitions of a target by topic, or its active tasks by subtopology.
        epoch_value: the class of the value with the epoch of the target.
    """

    value: Callable[[Any], Message]
    places: Callable[[Any], Mapping[Any, Collection[int]]]
    epoch_value: type[Any]


def compute_or_begin(
    step: Any, computation: C, at_once: int, write: Callable[[Any, C], None]
) -> None:
    """Compute a target and write it, or keep the computation of a large one for later.

    Args:
        step: a step of the group, which keeps the computation in `computation`.
        computation: the computation, which has not begun.
        at_once: the size of the largest target that is computed at once.
        write: writes the target.
    """
    if computation.size > at_once:
        step.computation = computation
    else:
        computation.finish()
        write(step, computation)


def begin_computation(step: Any, kind: str) -> None:
    """Begin to compute a large target, after it is known that the records of the step fit.

    Args:
        step: the step, with the computation.
        kind: of the timer that starts each part.
    """
    if step.computation is not None:
        step.group.computation = step.computation
        step.arm(kind, "", step.now_ms)


def compute_some(
    step: TentativeStep[Any], kind: str, together: int, write: Callable[[Any, Any], None]
) -> bool:
    """Compute a part of a large target, and write the target after the last one.

    Members that have joined since have none, and those that are gone have lost theirs; a later
    epoch needs a target of its own.

    Args:
        step: a step of the group.
        kind: of the timer that starts each part.
        together: how much is done in a part.
        write: writes the target.

    Returns:
        Whether a target was computed that is larger than a batch.
    """
    group = step.group
    computation: Computation | None = group.computation
    if computation is None:
        return False
    assert computation.epoch <= group.epoch, f"{group} has lost the epoch of a target"
    if not group.members:
        group.computation = None
        return False
    if not computation.go_on(together):
        step.arm(kind, "", step.now_ms)
        return False
    group.computation = None
    write(step, computation)
    return not step.fits()


def write_targets(
    step: Any,
    computation: Computation,
    targets: Mapping[str, Any],
    logged: LoggedTarget,
    assignor: str,
) -> None:
    """Write the target of each member whose target changes, in the order in which they joined.

    Args:
        step: the step.
        computation: the computation, which has ended.
        targets: by member id, its new target; a member that is not there keeps its own.
        logged: how the type logs targets.
        assignor: the name of the assignor.
    """
    group = step.group
    changed = moved = 0
    for member_id in group.members:
        target = targets.get(member_id)
        before = group.target(member_id)
        if target is None or (target == before and member_id in group.target_values):
            continue
        changed += 1
        kept = logged.places(target)
        moved += sum(
            len(set(each).difference(kept.get(place, ())))
            for place, each in logged.places(before).items()
        )
        key = group.KEYS.target(group_id=group.group_id, member_id=member_id)
        step.set(key, logged.value(target))
    step.set(
        group.KEYS.target_epoch(group_id=group.group_id),
        logged.epoch_value(assignment_epoch=computation.epoch, assignment_timestamp=step.now_ms),
    )
    note_target(step, computation.epoch, assignor, changed, moved)


def note_target(
    step: TentativeStep[Any], epoch: int, assignor: str, changed: int, moved: int
) -> None:
    """Note that a target was computed.

    Args:
        step: the step that writes it.
        epoch: its epoch.
        assignor: the name of the assignor.
        changed: how many members have another target.
        moved: how many partitions or tasks go from one member to another.
    """
    step.facts.append(
        TargetComputed(
            at_ms=step.now_ms,
            epoch=epoch,
            assignor=assignor,
            member_count=len(step.group.members),
            changed_members=changed,
            moved_partitions=moved,
            group_type=step.group.group_type,
        )
    )


def note_convergence(step: TentativeStep[Any]) -> None:
    """Note that every member has reached the target of the epoch."""
    step.facts.append(converged_fact(step.group, step.now_ms))


def converged_fact(group: RecordedGroup[Any], now_ms: int) -> GroupConverged:
    """Return the fact that the last member of a group has reached the target."""
    return GroupConverged(
        at_ms=now_ms,
        epoch=group.epoch,
        member_count=len(group.members),
        converged_ms=now_ms - group.bumped_ms if group.bumped_ms else -1,
    )
