"""The tasks of a streams group over time [pipeline/streams-tasks].

Active tasks have one owner each, like partitions. Several members may have copies of one task, its
standby and warm-up tasks, so these are kept apart: nobody waits for a copy.
"""

from collections.abc import Iterable, Iterator, Mapping

from coterie.pipeline.records.streams import ACTIVE
from coterie.pipeline.timeline.model import Copy, Ownership

# Those whose members are owners: there is one at a time. The first is of partitions.
OWNING_ROLES = (None, ACTIVE)


class Copies:
    """The copies that the members of one group have."""

    def __init__(self, group_id: str) -> None:
        """Begin without copies."""
        self._group_id = group_id
        # By copy and member key since when, and at which epoch the member got it.
        self._held: dict[tuple[Copy, str], tuple[int, int]] = {}
        self._ended: list[Ownership] = []

    def has(self, member_key: str, copies: Iterable[Copy], epoch: int, at_ms: int) -> None:
        """Note which copies a member has, and has yet to give up."""
        now = set(copies)
        for copy, key in [each for each in self._held if each[1] == member_key]:
            if copy not in now:
                self._end(copy, key, at_ms)
        for copy in now:
            self._held.setdefault((copy, member_key), (at_ms, epoch))

    def lose_everything(self, at_ms: int) -> None:
        """Note that the members are gone."""
        for copy, key in list(self._held):
            self._end(copy, key, at_ms)

    def intervals(self) -> list[Ownership]:
        """Return the times for which members had copies, by their beginnings."""
        lasting = [
            self._interval(copy, key, since, None) for (copy, key), since in self._held.items()
        ]
        return sorted([*self._ended, *lasting], key=lambda each: (each.from_ms, each[1:4]))

    def _end(self, copy: Copy, member_key: str, at_ms: int) -> None:
        since = self._held.pop((copy, member_key))
        self._ended.append(self._interval(copy, member_key, since, max(at_ms, since[0])))

    def _interval(
        self, copy: Copy, member_key: str, since: tuple[int, int], to_ms: int | None
    ) -> Ownership:
        from_ms, epoch = since
        return Ownership(
            self._group_id, copy.topic, copy.partition, member_key, epoch, from_ms, to_ms, copy.role
        )


def as_tasks(owned: Iterable[Ownership], reads: Mapping[str, tuple[str, ...]]) -> list[Ownership]:
    """Return ownership of tasks with their role and what they read.

    Args:
        owned: of a streams group; what is of no subtopology is from a time when it was of another
            type.
        reads: by subtopology the topics that its tasks read.
    """
    return [
        each._replace(role=ACTIVE, reads=reads[each.topic]) if each.topic in reads else each
        for each in owned
    ]


def partitions_read(ownership: Iterable[Ownership]) -> Iterator[Ownership]:
    """Yield ownership of partitions: those of an active task are the ones that it reads.

    Copies read none that is committed. `transforms.task_partitions` does the same with tables.
    """
    for each in ownership:
        if each.role is None:
            yield each
        for topic in each.reads or ():
            yield each._replace(topic=topic, role=None, reads=None)
