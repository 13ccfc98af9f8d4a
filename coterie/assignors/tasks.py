"""Kafka's assignor of streams groups: active tasks and standby tasks, balanced and sticky.

Active tasks go to the members that had them, then to members that had them as a standby, then to
the process with the fewest tasks for each of its members. A member keeps at most its share. Standby
tasks follow, of stateful tasks only, and never into a process that has the task
[assignors/sticky-tasks].

Where loads are equal the order of Kafka's hash maps and heaps decides, which is kept here. A large
group takes long, so the work is done in steps (shares.py). A step is O(log members) for each task.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.assignors.java_order import in_map_order
from coterie.assignors.java_queue import JavaQueue
from coterie.assignors.shares import STEP_WORK, Work

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
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[each] for each in in_map_order(by_id)]
    work = _Assignment(ordered, subtopologies, standby_replicas)
    yield from work.steps()
    for number, member in enumerate(ordered):
        active, standby = work.active[number], work.standby[number]
        found[member.member_id] = TaskAssignment(
            work.tasks.named(active), work.tasks.named(standby), {}
        )
        yield 1 + len(active) + len(standby)


class _TaskNumbers:
    """The tasks of a topology, numbered by the ids of their subtopologies, then by partition.

    Attributes:
        total: how many there are.
        total_stateful: how many of them have state.
        is_stateful: for each whether it has state.
    """

    __slots__ = ("_places", "is_stateful", "total", "total_stateful")

    def __init__(self, subtopologies: Mapping[str, TaskSubtopology]) -> None:
        self.total = 0
        self.is_stateful = bytearray()
        # The first task of each subtopology, and how many it has.
        self._places: dict[str, tuple[int, int]] = {}
        for each in sorted(subtopologies):
            count, stateful = subtopologies[each]
            self._places[each] = self.total, count
            self.total += count
            self.is_stateful += bytes([stateful]) * count
        self.total_stateful = sum(self.is_stateful)

    def numbers(self, tasks: Tasks) -> Iterator[int]:
        """Return the numbers of those tasks that the topology still has."""
        for each, indexes in tasks.items():
            if each in self._places:
                first, count = self._places[each]
                for index in indexes:
                    if index < count:
                        yield first + index

    def by_partition(self) -> Iterator[int]:
        """Return all tasks in the order of their partitions, then of their subtopologies."""
        places = list(self._places.values())
        index = 0
        while places:
            for first, count in places:
                if index < count:
                    yield first + index
            index += 1
            if any(count == index for _, count in places):
                places = [place for place in places if place[1] > index]

    def named(self, tasks: list[int]) -> dict[str, list[int]]:
        """Return tasks by subtopology, both in ascending order."""
        found: dict[str, list[int]] = {}
        ordered = sorted(tasks)
        end = 0
        for each, (first, count) in self._places.items():
            start, end = end, bisect_left(ordered, first + count, end)
            if start < end:
                found[each] = [task - first for task in ordered[start:end]]
        return found


class _Quota:
    """The share of a member: of the tasks that are left, among the members that are left.

    Attributes:
        share: how many tasks.
    """

    __slots__ = ("_members", "_tasks", "share")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.share = -(-tasks // members) if members else 0

    def note(self, count: int) -> None:
        """Note that a member has so many tasks now; with its share it leaves the others."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self.share = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """A process.

    Attributes:
        members: the numbers of its members.
        tasks: the tasks that they have.
        by_load: its members in the order of how many tasks they have; None if it is not known.
    """

    __slots__ = ("by_load", "members", "tasks")

    def __init__(self) -> None:
        self.members: list[int] = []
        self.tasks: set[int] = set()
        self.by_load: JavaQueue | None = None


class _Assignment:
    """The tasks of a group are assigned. Members have numbers in the order of Kafka's map.

    Attributes:
        tasks: the tasks.
        active, standby: the tasks of each member.
    """

    def __init__(
        self,
        members: Sequence[TaskMember],
        subtopologies: Mapping[str, TaskSubtopology],
        standby_replicas: int,
    ) -> None:
        self.tasks = _TaskNumbers(subtopologies)
        self.active: list[list[int]] = [[] for _ in members]
        self.standby: list[list[int]] = [[] for _ in members]
        self._members = members
        self._replicas = standby_replicas
        copies = self.tasks.total_stateful * standby_replicas
        self._quota = _Quota(self.tasks.total, len(members))
        self._quota_with_standbys = _Quota(self.tasks.total + copies, len(members))
        # Processes have numbers in the order of Kafka's map.
        ids = in_map_order((each.process_id for each in members), len(members))
        at = {each: number for number, each in enumerate(ids)}
        self._processes = [_Process() for _ in ids]
        self._process_of = [at[each.process_id] for each in members]
        # How many tasks each member has, and each process for each of its members.
        self._taken = [0] * len(members)
        self._loads: list[float] = [0.0] * len(ids)
        # The member that had a task; of several the last one.
        self._active_before: dict[int, int] = {}
        self._standby_before: dict[int, list[int]] = {}

    def steps(self) -> Work:
        """Assign all tasks."""
        for number, member in enumerate(self._members):
            self._processes[self._process_of[number]].members.append(number)
            handled = 1
            for task in self.tasks.numbers(member.active):
                self._active_before[task] = number
                handled += 1
            for task in self.tasks.numbers(member.standby):
                self._standby_before.setdefault(task, []).append(number)
                handled += 1
            yield handled
        by_partition: list[int] = []
        for task in self.tasks.by_partition():
            by_partition.append(task)
            if len(by_partition) % STEP_WORK == 0:
                yield STEP_WORK // 10
        yield from self._assign_active(by_partition)
        if self._replicas > 0:
            yield from self._assign_standby(by_partition)

    def _assign_active(self, by_partition: list[int]) -> Work:
        left = bytearray(b"\1") * self.tasks.total
        for at, task in enumerate(by_partition):
            member = self._active_before.get(task)
            if member is not None and self._taken[member] < self._quota.share:
                self._give(task, member, self.active)
                left[task] = 0
            if at % STEP_WORK == 0:
                yield STEP_WORK
        for at, task in enumerate(by_partition):
            if left[task] and task in self._standby_before:
                member = self._least_loaded(self._standby_before[task])
                if self._taken[member] < self._quota.share:
                    self._give(task, member, self.active)
                    left[task] = 0
            if at % STEP_WORK == 0:
                yield STEP_WORK
        queue = JavaQueue(range(len(self._processes)), self._loads)
        for task in range(self.tasks.total):
            if left[task]:
                process = queue.poll()
                self._give_least_loaded(task, process, self.active)
                queue.add(process)
            if task % STEP_WORK == 0:
                yield STEP_WORK

    def _assign_standby(self, by_partition: list[int]) -> Work:
        missing = [0] * self.tasks.total
        for at, task in enumerate(reversed(by_partition)):
            if self.tasks.is_stateful[task]:
                missing[task] = self._replicas
                while missing[task]:
                    member = self._had_before(task)
                    if member is None:
                        break
                    self._give(task, member, self.standby)
                    missing[task] -= 1
            if at % STEP_WORK == 0:
                yield STEP_WORK
        queue = JavaQueue(range(len(self._processes)), self._loads)
        for task in range(self.tasks.total - 1, -1, -1):
            while missing[task] and self._give_without(task, queue):
                missing[task] -= 1
            if task % STEP_WORK == 0:
                yield STEP_WORK

    def _had_before(self, task: int) -> int | None:
        """Return a member that had the task and may have it as a standby; None if there is none."""
        member = self._active_before.get(task)
        if member is not None and self._may_have_standby(task, member):
            return member
        before = self._standby_before.get(task)
        if before:
            member = self._least_loaded(before, task)
            # As in Kafka, nobody is found if the process of the first has the task.
            first = self._processes[self._process_of[before[0]]]
            if task not in first.tasks and self._has_room(member):
                return member
        return None

    def _may_have_standby(self, task: int, member: int) -> bool:
        return task not in self._processes[self._process_of[member]].tasks and self._has_room(
            member
        )

    def _has_room(self, member: int) -> bool:
        return self._taken[member] < self._quota_with_standbys.share

    def _least_loaded(self, members: Sequence[int], task: int | None = None) -> int:
        """Return the first member, or one with less to do whose process has less to do too.

        Args:
            members: the members.
            task: a task that the process of the other member must not have.
        """
        found = members[0]
        for member in members[1:]:
            process = self._process_of[member]
            if (
                self._loads[process] < self._loads[self._process_of[found]]
                and self._taken[member] < self._taken[found]
                and (task is None or task not in self._processes[process].tasks)
            ):
                found = member
        return found

    def _give_without(self, task: int, queue: JavaQueue) -> bool:
        """Give a standby task to the process with the least to do that does not have the task."""
        polled = []
        given = False
        while queue.items and not given:
            process = queue.poll()
            polled.append(process)
            if task not in self._processes[process].tasks:
                self._give_least_loaded(task, process, self.standby)
                given = True
        for process in reversed(polled):
            queue.add(process)
        return given

    def _give_least_loaded(self, task: int, at: int, role: list[list[int]]) -> None:
        process = self._processes[at]
        if len(process.members) == 1:
            self._note_given(task, process.members[0], role)
            return
        if process.by_load is None:
            numbers = {self._members[each].member_id: each for each in process.members}
            ordered = [numbers[each] for each in in_map_order(numbers)]
            process.by_load = JavaQueue(ordered, self._taken)
        member = process.by_load.poll()
        self._note_given(task, member, role)
        process.by_load.add(member)

    def _give(self, task: int, member: int, role: list[list[int]]) -> None:
        self._processes[self._process_of[member]].by_load = None
        self._note_given(task, member, role)

    def _note_given(self, task: int, member: int, role: list[list[int]]) -> None:
        at = self._process_of[member]
        process = self._processes[at]
        process.tasks.add(task)
        role[member].append(task)
        count = self._taken[member] + 1
        self._taken[member] = count
        self._loads[at] = len(process.tasks) / len(process.members)
        if role is self.active:
            self._quota.note(count)
        self._quota_with_standbys.note(count)
