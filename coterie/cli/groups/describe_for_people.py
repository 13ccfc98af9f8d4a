"""`coterie groups describe` on a terminal: a line for each group, and one table for all of them.

Member ids are short and columns without values are left out, so that 100 columns are enough
[terminal/layout]. Everything is in `--verbose` and in `--json`.
"""

from collections.abc import Sequence

import click

from coterie.cli.groups.offset_rows import LAG, LAST_COMMIT_AGE, RATES, catch_up_text
from coterie.cli.groups.streams_tables import print_topology, work_columns
from coterie.cli.output import (
    Column,
    Row,
    assignment_text,
    note,
    print_table,
    printable,
    state_style,
)
from coterie.cli.timeline import work_text
from coterie.client.group_description import GroupDescription
from coterie.client.group_totals import lag_growth
from coterie.client.names import short_member
from coterie.client.progress import Rates, total

Tables = list[tuple[GroupDescription, list[Row]]]

_GROUP = Column("GROUP", "group")
_HEAD = [
    _GROUP,
    Column("STATE", "state", style=state_style),
    Column("MEMBERS", "members", number=True),
    LAG,
    *RATES,
    Column("CATCH-UP", "catch_up"),
    LAST_COMMIT_AGE,
    Column("ASSIGNOR", "assignor"),
    Column("COORDINATOR", "coordinator"),
]
_OFFSETS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("CURRENT", "current_offset", number=True),
    Column("END", "log_end_offset", number=True),
    LAG,
    *RATES,
    LAST_COMMIT_AGE,
    Column("MEMBER", "member"),
]
_MEMBERS = [
    Column("MEMBER", "member"),
    Column("HOST", "host"),
    Column("PARTITIONS", "partition_count", number=True),
    Column("ASSIGNMENT", "work"),
]


def print_for_people(tables: Tables, view: str) -> None:
    """Print groups with the rows of a view: offsets, members or state."""
    rows = [_with_short_names(row) for _, found in tables for row in found]
    with_lag, with_coordinator = view == "offsets", view == "state"
    print_table(
        _HEAD,
        [
            _head_row(group, found, with_lag=with_lag, with_coordinator=with_coordinator)
            for group, found in tables
        ],
    )
    if rows and view != "state":
        click.echo()
        columns = _OFFSETS if view == "offsets" else _MEMBERS
        print_table([*_several(tables), *columns, *work_columns(rows)], rows)
    if view == "state":
        print_topology([group for group, _ in tables])
    for group, found in tables:
        if view == "offsets" and not found:
            name = printable(group.group_id)
            note(f"Group '{name}' has no committed offsets and no assigned partitions.")


def _several(tables: Tables) -> Sequence[Column]:
    return [_GROUP] if len(tables) > 1 else []


def _head_row(
    group: GroupDescription, rows: list[Row], *, with_lag: bool, with_coordinator: bool
) -> Row:
    lag, consumed, produced = (
        total(row[key] for row in rows) if with_lag else None
        for key in ("lag", "consumed_per_s", "produced_per_s")
    )
    growth = lag_growth(
        Rates(row["consumed_per_s"], row["produced_per_s"]) for row in rows if with_lag
    )
    commits = [row["last_commit"] for row in rows if with_lag and row["last_commit"]]
    return {
        "group": group.group_id,
        "state": group.state,
        "members": len(group.members),
        "lag": lag,
        "consumed_per_s": consumed,
        "produced_per_s": produced,
        "catch_up": catch_up_text(lag, growth, produced),
        "last_commit": max(commits, default=None),
        "assignor": group.protocol,
        "coordinator": str(group.coordinator.address) if with_coordinator else None,
    }


def _with_short_names(row: Row) -> Row:
    member_id = row.get("consumer_id")
    if member_id is None:
        return row
    key = row["group_instance_id"] or member_id
    return row | {
        "member": short_member(key, member_id, row["client_id"]),
        "host": (row["host"] or "").removeprefix("/"),
        "work": _work_text(row),
    }


def _work_text(row: Row) -> str:
    """Return the partitions of a consumer, or the tasks of a Connect worker."""
    worker = row.get("worker")
    if worker is None:
        return assignment_text(row.get("assignment"))
    running: dict[str, list[int]] = worker["running"]
    return work_text([(connector, task) for connector in running for task in running[connector]])
