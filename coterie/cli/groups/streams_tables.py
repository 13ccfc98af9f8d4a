"""Tables of streams groups: what members run, and the topologies [client/streams-groups]."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from coterie.cli.output import NOTHING, Column, Row, assignment_text, print_table, printable
from coterie.client.group_description import DescribedSubtopology, GroupDescription

_TOPOLOGY = [
    Column("GROUP", "group"),
    Column("SUBTOPOLOGY", "subtopology"),
    Column("TASKS", "task_count", number=True),
    Column("READS", "reads"),
    Column("WRITES", "writes"),
    Column("CHANGELOGS", "changelogs"),
]


def work_columns(rows: Iterable[Row]) -> list[Column]:
    """Return the columns of members for tasks; none without members of streams groups.

    The target is shown where it differs from the tasks.
    """
    if not any(row.get("streams") for row in rows):
        return []
    return [
        Column("TASKS", "streams", text=_tasks_text),
        Column("TARGET", "streams", text=_target_text),
        Column("PROCESS", "streams", text=lambda work: printable(_of(work, "process_id"))),
        Column("ENDPOINT", "streams", text=lambda work: printable(_of(work, "endpoint"))),
    ]


def print_topology(groups: Iterable[GroupDescription]) -> None:
    """Print the subtopologies of those groups that have a topology, after an empty line."""
    rows: list[Row] = [
        {"group": group.group_id, **_subtopology_row(each)}
        for group in groups
        if group.topology is not None
        for each in group.topology.subtopologies
    ]
    if rows:
        click.echo()
        print_table(_TOPOLOGY, rows)


def _subtopology_row(each: DescribedSubtopology) -> Row:
    return {
        "subtopology": each.subtopology_id,
        "task_count": each.task_count,
        "reads": _topics_text(each.read_topics),
        "writes": ",".join(map(printable, each.repartition_sink_topics)) or None,
        "changelogs": _topics_text(each.state_changelog_topics),
    }


def _topics_text(counts: dict[str, int | None]) -> str | None:
    """Return topics with the numbers of their partitions: orders(4),bills(?)."""
    found = (f"{printable(topic)}({count or '?'})" for topic, count in sorted(counts.items()))
    return ",".join(found) or None


def _of(work: Row | None, key: str) -> str:
    return (work or {}).get(key) or NOTHING


def _target_text(work: Row | None) -> str:
    if work is None or work["target"] == work["tasks"]:
        return NOTHING
    return _roles_text(work["target"]) or "nothing"


def _tasks_text(work: Row | None) -> str:
    return NOTHING if work is None else _roles_text(work["tasks"]) or NOTHING


def _roles_text(roles: Mapping[str, Any]) -> str:
    """Return tasks by their roles: active 0:0,1;1:0 standby 1:1."""
    return " ".join(f"{role} {assignment_text(tasks)}" for role, tasks in roles.items() if tasks)
