"""Who holds the tasks of a streams group: members have active ones, processes have copies.

It counts what members have and what they have been asked to give up
[streams-groups/reconciliation].
"""

from collections.abc import Iterable

from coterie.coordinator.groups.streams.tasks import HeldTasks


class TaskHolders:
    """The holders of the tasks of one group. No mapping in it is empty."""

    __slots__ = ("_active", "_copies")

    def __init__(self) -> None:
        """Begin without tasks."""
        # By subtopology and partition: how many members of each process hold the task. A log of
        # other software may let two members have one as active.
        self._active: dict[str, dict[int, dict[str, int]]] = {}
        self._copies: dict[str, dict[int, dict[str, int]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nobody holds anything."""
        return not (self._active or self._copies)

    def count(self, process_id: str, tasks: HeldTasks, step: int) -> None:
        """Count tasks that a member of a process has or has to give up, or count them no more.

        Args:
            process_id: the process.
            tasks: the tasks.
            step: 1 or -1.
        """
        for each, epochs in tasks.active.items():
            _count(self._active, each, epochs, process_id, step)
        for role in (tasks.standby, tasks.warmup):
            for each, indexes in role.items():
                _count(self._copies, each, indexes, process_id, step)

    def is_active(self, subtopology: str, index: int) -> bool:
        """Return whether any member has a task as an active one."""
        return index in self._active.get(subtopology, ())

    def is_active_in(self, subtopology: str, index: int, process_id: str) -> bool:
        """Return whether a process has a task as an active one."""
        return process_id in self._active.get(subtopology, {}).get(index, ())

    def has_copy(self, subtopology: str, index: int, process_id: str) -> bool:
        """Return whether a process has a task as a standby or a warm-up task."""
        return process_id in self._copies.get(subtopology, {}).get(index, ())


def _count(
    table: dict[str, dict[int, dict[str, int]]],
    subtopology: str,
    indexes: Iterable[int],
    process_id: str,
    step: int,
) -> None:
    of_subtopology = table.setdefault(subtopology, {})
    for index in indexes:
        processes = of_subtopology.setdefault(index, {})
        count = processes.get(process_id, 0) + step
        assert count >= 0, f"{process_id} gives up {subtopology}_{index}, which it does not hold"
        if count:
            processes[process_id] = count
            continue
        del processes[process_id]
        if not processes:
            del of_subtopology[index]
    if not of_subtopology:
        del table[subtopology]
