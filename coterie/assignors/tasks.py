"""Kafka's assignor of streams groups: active tasks and standby tasks, balanced and sticky."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from coterie.assignors.shares import Work

# Partition numbers of tasks, by the id of their subtopology.
Tasks = Mapping[str, Collection[int]]


class TaskSubtopology(NamedTuple):
    """A subtopology as the assignor sees it.

    Attributes:
        tasks: how many tasks it has, numbered from 0.
        stateful: whether they have state, so that there are standby tasks.
    """

    tasks: int
    stateful: bool


class TaskMember(NamedTuple):
    """A member as the assignor sees it.

    Attributes:
        member_id: its id.
        process_id: the id of its process, in which no task is twice.
        active, standby: its part of the target before this one.
    """

    member_id: str
    process_id: str
    active: Tasks
    standby: Tasks


class TaskAssignment(NamedTuple):
    """What a member is assigned: partition numbers in ascending order, by subtopology id.

    Attributes:
        active, standby: its tasks.
        warmup: always empty: Kafka assigns none.
    """

    active: dict[str, list[int]]
    standby: dict[str, list[int]]
    warmup: dict[str, list[int]]


def assign_tasks(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, TaskSubtopology],
    *,
    standby_replicas: int,
) -> dict[str, TaskAssignment]:
    """Return the tasks of each member id; the arguments are those of `share_tasks`."""
    found: dict[str, TaskAssignment] = {}
    for _ in share_tasks(members, subtopologies, found, standby_replicas=standby_replicas):
        pass
    return found


def share_tasks(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, TaskSubtopology],
    found: dict[str, TaskAssignment],
    *,
    standby_replicas: int,
) -> Work:
    """Assign tasks in steps.

    Args:
        members: the members, in the order in which Kafka's group has them (a member that is new
            comes last).
        subtopologies: the subtopologies, by id.
        found: receives the tasks of each member id.
        standby_replicas: how many standby tasks each stateful task has, as far as there are
            processes.
    """
    raise NotImplementedError
