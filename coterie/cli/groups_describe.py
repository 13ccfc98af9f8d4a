"""`coterie groups describe`: offsets and lag, members, or state of groups."""

from collections.abc import Iterable
from typing import Any

import click

from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.names import complete_groups
from coterie.cli.output import (
    Column,
    Row,
    assignment_text,
    by_lag,
    by_state,
    json_option,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.refusals import no_such_groups
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.described import GroupDescription, Member
from coterie.client.groups import describe_groups, list_groups
from coterie.client.offsets import LATEST, Committed, committed_offsets, partition_offsets

# Share and streams groups have no members with assigned offsets in this sense.
_SHOWN_TYPES = ("classic", "consumer")

GROUP = Column("GROUP", "group")
CONSUMER_ID = Column("CONSUMER-ID", "consumer_id")
HOST = Column("HOST", "host")
CLIENT_ID = Column("CLIENT-ID", "client_id")


@click.command(short_help="Show offsets and lag, members, or state of groups.")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--offsets",
    "view",
    flag_value="offsets",
    default="offsets",
    help="Offsets and lag by partition (the default).",
)
@click.option("--members", "view", flag_value="members", help="The members and how much each has.")
@click.option("--state", "view", flag_value="state", help="Coordinator, strategy, state and size.")
@click.option("--all-groups", is_flag=True, help="Every group of the cluster.")
@click.option(
    "--verbose", is_flag=True, help="More columns: leader epochs, assignments, group epochs."
)
@json_option
@broker_options
def describe(
    *,
    group_ids: tuple[str, ...],
    view: str,
    all_groups: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Show what groups have committed and how far they lag, their members, or their state."""
    if bool(group_ids) == all_groups:
        raise click.UsageError("Name groups, or say --all-groups.")
    with connected() as cluster:
        if all_groups:
            group_ids = tuple(group.group_id for group in list_groups(cluster, types=_SHOWN_TYPES))
        described = describe_groups(cluster, group_ids)
        found = [group for group in described.values() if group.exists]
        tables = [(group, _ROWS[view](cluster, group)) for group in found]
        missing = [name for name, group in described.items() if not group.exists]
        refusal = _refusal(cluster, missing) if missing else None
    if as_json:
        print_json([row for _, rows in tables for row in rows])
    else:
        _print(tables, view, verbose=verbose)
    if refusal:
        raise refusal


def _refusal(cluster: Cluster, group_ids: list[str]) -> CommandFailed:
    """Why there is nothing to show about these: no such group, or one of another kind."""
    kinds = {group.group_id: group.type for group in list_groups(cluster)}
    for name in group_ids:
        if name in kinds and kinds[name] not in _SHOWN_TYPES:
            return CommandFailed(
                f"Group '{printable(name)}' is a {kinds[name]} group.",
                f"Shown are groups of the types {' and '.join(_SHOWN_TYPES)}.",
            )
    return no_such_groups(group_ids)


def _print(tables: list[tuple[GroupDescription, list[Row]]], view: str, *, verbose: bool) -> None:
    """A table for each group, as Kafka's tool does it, with a blank line between them."""
    for n, (group, rows) in enumerate(tables):
        if n:
            click.echo()
        name = printable(group.group_id)
        if group.state == "Empty":
            note(f"Group '{name}' has no active members.")
        elif group.state not in ("Stable", "Dead"):
            note(f"Group '{name}' is rebalancing ({group.state}): this may be about to change.")
        if view == "offsets" and not rows:
            note(f"Group '{name}' has no committed offsets and no assigned partitions.")
        else:
            print_table(_COLUMNS[view](rows, verbose=verbose), rows)


def _offset_rows(cluster: Cluster, group: GroupDescription) -> list[Row]:
    """A row for every partition that is committed or assigned, by topic and number."""
    committed = committed_offsets(cluster, group.group_id)
    owners: dict[TopicPartition, Member] = {
        (topic, partition): member
        for member in group.members
        for topic, partitions in (member.assignment or {}).items()
        for partition in partitions
    }
    partitions = sorted(set(committed) | set(owners))
    # A deleted topic's offsets outlive it for a while: then there is an offset and no end.
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
    offset = None if committed is None else committed.offset
    return {
        "group": group_id,
        "topic": partition[0],
        "partition": partition[1],
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
        Column("LAG", "lag", style=by_lag),
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
        # One cell of two keys, as Kafka writes it.
        row["coordinator_text"] = f"{row['coordinator']}  ({row['coordinator_id']})"
    more = [
        Column("GROUP-EPOCH", "group_epoch"),
        Column("TARGET-ASSIGNMENT-EPOCH", "target_assignment_epoch", 25),
    ]
    return [
        GROUP,
        Column("COORDINATOR (ID)", "coordinator_text", 25),
        Column("ASSIGNMENT-STRATEGY", "assignment_strategy", 20),
        Column("STATE", "state", 20, style=by_state),
        *(more if verbose else []),
        Column("#MEMBERS", "member_count"),
    ]


_ROWS: dict[str, Any] = {"offsets": _offset_rows, "members": _member_rows, "state": _state_rows}
_COLUMNS: dict[str, Any] = {
    "offsets": _offset_columns,
    "members": _member_columns,
    "state": _state_columns,
}
