"""What a test sees of streams groups (KIP-1071): their tasks, and who has them.

The topology has tasks once its topics are there [streams-groups/validation]; after a load the
group knows them with the next heartbeat, and until then only those that somebody has. Everything
here is for the thread of the brokers.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.tasks import TaskRoles

# A picture shows so many tasks of one kind.
_SHOWN_TASKS = 20


class Task(NamedTuple):
    """A task of a streams group.

    Attributes:
        topics: what it reads: its partition of each of these topics.
        active: the id of the member that processes it; None for nobody.
        standby: the ids of the members that have a copy of its state.
        given_up_by: the ids of the members that shall give it up, and have not done that yet.
        is_stateful: whether it has state, so that standby copies can be made of it.
    """

    topics: tuple[str, ...]
    active: str | None
    standby: tuple[str, ...]
    given_up_by: tuple[str, ...]
    is_stateful: bool


class _Found:
    """A task while its holders are being collected."""

    def __init__(self) -> None:
        self.active: str | None = None
        self.standby: list[str] = []
        self.given_up_by: list[str] = []


def tasks_of(group: GroupLike | None) -> dict[str, Task]:
    """Return the tasks of a streams group by their names, such as "0_2"; none of another group.

    The name is that of Kafka Streams: the id of the subtopology and the number of the partition.
    """
    if not isinstance(group, StreamsGroup):
        return {}
    found = {task: _Found() for task in _configured(group)}
    for member in group.members.values():
        held = member.assigned.without_epochs()
        for task in _named(held.active):
            found.setdefault(task, _Found()).active = member.member_id
        for task in _named(held.standby):
            found.setdefault(task, _Found()).standby.append(member.member_id)
        for task in _pending(member):
            found.setdefault(task, _Found()).given_up_by.append(member.member_id)
    topics, stateful = _topics(group), _stateful(group)
    return {
        _name(*task): Task(
            topics.get(task[0], ()),
            each.active,
            tuple(each.standby),
            tuple(each.given_up_by),
            task[0] in stateful,
        )
        for task, each in sorted(found.items())
    }


def are_assigned(tasks: Mapping[str, Task], standbys: int) -> bool:
    """Return whether each task is active, and has so many copies if it has state."""
    return bool(tasks) and all(
        each.active is not None and (not each.is_stateful or len(each.standby) >= standbys)
        for each in tasks.values()
    )


def task_lines(group: GroupLike | None) -> dict[str, str]:
    """Describe what each member of a streams group has, by member id; "" for those of nobody."""
    if not isinstance(group, StreamsGroup):
        return {}
    lines = {}
    for member in group.members.values():
        held = member.assigned.without_epochs()
        parts = [
            f"{what} {_shown(names)}"
            for what, names in (
                ("active", _names(_named(held.active))),
                ("standby", _names(_named(held.standby))),
                ("has to give up", _names(_pending(member))),
            )
            if names
        ]
        text = "; ".join(parts) or "no tasks"
        lines[member.member_id] = f"{text}; epoch {member.epoch}, process {member.process_id}"
    free = [name for name, each in tasks_of(group).items() if each.active is None]
    if free:
        lines[""] = f"active nowhere: {_shown(free)}"
    return lines


def _configured(group: StreamsGroup) -> Iterable[tuple[str, int]]:
    if group.configured is None or not group.configured.is_ready:
        return
    for subtopology_id, each in group.configured.subtopologies.items():
        for partition in range(each.tasks):
            yield subtopology_id, partition


def _topics(group: StreamsGroup) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for topic, subtopologies in sorted(group.readers.items()):
        for each in subtopologies:
            found[each] = (*found.get(each, ()), topic)
    return found


def _stateful(group: StreamsGroup) -> set[str]:
    listed = () if group.topology is None else group.topology.subtopologies
    return {each.subtopology_id for each in listed if each.state_changelog_topics}


def _pending(member: StreamsMember) -> list[tuple[str, int]]:
    pending: TaskRoles = member.pending.without_epochs()
    return sorted({task for role in pending for task in _named(role)})


def _named(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    return sorted((each, partition) for each, indexes in tasks.items() for partition in indexes)


def _names(tasks: Iterable[tuple[str, int]]) -> list[str]:
    return [_name(*each) for each in tasks]


def _name(subtopology_id: str, partition: int) -> str:
    return f"{subtopology_id}_{partition}"


def _shown(names: list[str]) -> str:
    more = len(names) - _SHOWN_TASKS
    return ", ".join(names[:_SHOWN_TASKS]) + (f" and {more} more" if more > 0 else "")
