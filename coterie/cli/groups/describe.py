"""`coterie groups describe`: offsets and lag, members, or state of groups."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_groups
from coterie.cli.groups.describe_for_people import Tables, print_for_people
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import (
    Column,
    Row,
    assignment_text,
    is_for_people,
    lag_style,
    note,
    print_json,
    print_table,
    printable,
    state_style,
)
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.group_description import GroupDescription, Member
from coterie.client.groups import describe_groups, list_groups
from coterie.client.offsets import LATEST, Committed, committed_offsets, partition_offsets

# Share and streams groups have no members with assigned partitions in this sense.
_SHOWN_TYPES = ("classic", "consumer")

GROUP = Column("GROUP", "group")
CONSUMER_ID = Column("CONSUMER-ID", "consumer_id")
HOST = Column("HOST", "host")
CLIENT_ID = Column("CLIENT-ID", "client_id")


@click.command("describe")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--offsets",
    "view",
    flag_value="offsets",
    default="offsets",
    help="Offsets and lag of each partition (the default).",
)
@click.option(
    "--members", "view", flag_value="members", help="Members and the number of their partitions."
)
@click.option(
    "--state",
    "view",
    flag_value="state",
    help="Coordinator, assignment strategy, state and number of members.",
)
@click.option("--all-groups", is_flag=True, help="Describe every group of the cluster.")
@click.option(
    "--verbose", is_flag=True, help="Show more columns: leader epochs, assignments, group epochs."
)
@json_option
@broker_options
def command(
    *,
    group_ids: tuple[str, ...],
    view: str,
    all_groups: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Show the committed offsets and the lag of groups, their members, or their state.

    On a terminal there is a line for each group and one table for all of them. With --verbose and
    in a pipe the tables are those of kafka-consumer-groups.
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("Name groups, or use --all-groups.")
    shown = _VIEWS[view]
    with connected() as cluster:
        if all_groups:
            group_ids = tuple(group.group_id for group in list_groups(cluster, types=_SHOWN_TYPES))
        described = describe_groups(cluster, group_ids)
        found = [group for group in described.values() if group.exists]
        tables = [(group, shown.rows(cluster, group)) for group in found]
        missing = [name for name, group in described.items() if not group.exists]
        failure = _not_shown(cluster, missing) if missing else None
    if as_json:
        print_json([row for _, rows in tables for row in rows])
    elif verbose or not is_for_people():
        _print_as_kafka(tables, view, verbose=verbose)
    else:
        print_for_people(tables, view)
    if failure:
        raise failure


def _not_shown(cluster: Cluster, group_ids: list[str]) -> CommandFailed:
    """Return why these groups are not shown: they do not exist, or are of another type."""
    types = {group.group_id: group.type for group in list_groups(cluster)}
    for name in group_ids:
        if name in types and types[name] not in _SHOWN_TYPES:
            return CommandFailed(
                f"Group '{printable(name)}' is a {types[name]} group.",
                f"This command describes groups of the types {' and '.join(_SHOWN_TYPES)}.",
            )
    return no_such_groups(group_ids)


def _print_as_kafka(tables: Tables, view: str, *, verbose: bool) -> None:
    """Print a table for each group with a blank line between them, as Kafka's tool does."""
    for n, (group, rows) in enumerate(tables):
        if n:
            click.echo()
        name = printable(group.group_id)
        if group.state == "Empty":
            note(f"Group '{name}' has no active members.")
        elif group.state not in ("Stable", "Dead"):
            note(f"Group '{name}' is rebalancing ({group.state}): this may change soon.")
        if view == "offsets" and not rows:
            note(f"Group '{name}' has no committed offsets and no assigned partitions.")
        else:
            print_table(_VIEWS[view].columns(rows, verbose=verbose), rows, fitted=False)


def _offset_rows(cluster: Cluster, group: GroupDescription) -> list[Row]:
    """Return a row for each partition that has a committed offset or an owner, in order."""
    committed = committed_offsets(cluster, group.group_id)
    owners: dict[TopicPartition, Member] = {
        (topic, partition): member
        for member in group.members
        for topic, partitions in (member.assignment or {}).items()
        for partition in partitions
    }
    partitions = sorted(set(committed) | set(owners))
    # The offsets of a deleted topic remain for a while. They have no log end offset.
    ends = partition_offsets(cluster, dict.fromkeys(partitions, LATEST), missing={})
    return [
        _offset_row(
            group.group_id,
            partition,
            committed.get(partition),
            ends.get(partition),
            owners.get(partition),
        )
        for partition in partitions
    ]


def _offset_row(
    group_id: str,
    partition: TopicPartition,
    committed: Committed | None,
    end: int | None,
    owner: Member | None,
) -> Row:
    topic, index = partition
    offset = None if committed is None else committed.offset
    return {
        "group": group_id,
        "topic": topic,
        "partition": index,
        "leader_epoch": committed.leader_epoch
        if committed and committed.leader_epoch >= 0
        else None,
        "current_offset": offset,
        "log_end_offset": end,
        "lag": None if offset is None or end is None else end - offset,
        "metadata": None if committed is None else committed.metadata,
        "consumer_id": owner.member_id if owner else None,
        "group_instance_id": owner.group_instance_id if owner else None,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
    }


def _member_rows(_: Cluster, group: GroupDescription) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "consumer_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partition_count": member.partition_count,
            "member_epoch": member.member_epoch,
            "assignment": member.assignment,
            "target_epoch": group.assignment_epoch,
            "target_assignment": member.target_assignment,
            "worker": None if member.worker is None else member.worker._asdict(),
        }
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]


def _state_rows(_: Cluster, group: GroupDescription) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "coordinator": str(group.coordinator.address),
            "coordinator_id": group.coordinator.node_id,
            "type": group.type,
            "protocol_type": group.protocol_type,
            "assignment_strategy": group.protocol,
            "state": group.state,
            "group_epoch": group.group_epoch,
            "target_assignment_epoch": group.assignment_epoch,
            "member_count": len(group.members),
        }
    ]


def _offset_columns(_: Iterable[Row], *, verbose: bool) -> list[Column]:
    return [
        GROUP,
        Column("TOPIC", "topic"),
        Column("PARTITION", "partition", 10),
        *([Column("LEADER-EPOCH", "leader_epoch")] if verbose else []),
        Column("CURRENT-OFFSET", "current_offset"),
        Column("LOG-END-OFFSET", "log_end_offset"),
        Column("LAG", "lag", style=lag_style),
        CONSUMER_ID,
        HOST,
        CLIENT_ID,
    ]


def _member_columns(rows: Iterable[Row], *, verbose: bool) -> list[Column]:
    static = any(row["group_instance_id"] for row in rows)
    more = [
        Column("CURRENT-EPOCH", "member_epoch"),
        Column("CURRENT-ASSIGNMENT", "assignment", 20, assignment_text),
        Column("TARGET-EPOCH", "target_epoch"),
        Column("TARGET-ASSIGNMENT", "target_assignment", 20, assignment_text),
    ]
    return [
        GROUP,
        CONSUMER_ID,
        *([Column("GROUP-INSTANCE-ID", "group_instance_id", 17)] if static else []),
        HOST,
        CLIENT_ID,
        Column("#PARTITIONS", "partition_count"),
        *(more if verbose else []),
    ]


def _state_columns(rows: Iterable[Row], *, verbose: bool) -> list[Column]:
    for row in rows:
        # Kafka's tool shows both in one cell.
        row["coordinator_text"] = f"{row['coordinator']}  ({row['coordinator_id']})"
    more = [
        Column("GROUP-EPOCH", "group_epoch"),
        Column("TARGET-ASSIGNMENT-EPOCH", "target_assignment_epoch", 25),
    ]
    return [
        GROUP,
        Column("COORDINATOR (ID)", "coordinator_text", 25),
        Column("ASSIGNMENT-STRATEGY", "assignment_strategy", 20),
        Column("STATE", "state", 20, style=state_style),
        *(more if verbose else []),
        Column("#MEMBERS", "member_count"),
    ]


class _View(NamedTuple):
    """One of the three views: how its rows are made, and which columns they have."""

    rows: Callable[[Cluster, GroupDescription], list[Row]]
    columns: Callable[..., list[Column]]


_VIEWS = {
    "offsets": _View(_offset_rows, _offset_columns),
    "members": _View(_member_rows, _member_columns),
    "state": _View(_state_rows, _state_columns),
}
