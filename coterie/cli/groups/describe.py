"""`coterie groups describe`: offsets and lag, members, or state of groups."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_groups
from coterie.cli.groups.describe_for_people import Tables, print_for_people
from coterie.cli.groups.looks import DEFAULT_INTERVAL_S, interval_option, looks_at
from coterie.cli.groups.offset_rows import LAG, LAST_COMMIT, RATES
from coterie.cli.groups.streams_tables import print_topology, work_columns
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import (
    NOTHING,
    Column,
    Row,
    assignment_text,
    is_for_people,
    note,
    print_json,
    print_table,
    printable,
    state_style,
)
from coterie.client.cluster import Cluster
from coterie.client.commit_times import commit_times
from coterie.client.group_description import SHARE_GROUP
from coterie.client.group_rows import member_rows, offset_rows, state_row
from coterie.client.groups import TYPES, describe_groups, list_groups
from coterie.client.progress import Sample, take_sample
from coterie.client.software import client_software

_CLASSIC = "classic"

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
    "--verbose",
    is_flag=True,
    help="Show more columns: leader epochs, assignments, group epochs, subscriptions, software.",
)
@interval_option
@click.option(
    "--last-commit",
    is_flag=True,
    help="Show when each partition was committed, from the group log.",
)
@click.option(
    "--watch",
    is_flag=True,
    help=f"Repeat every {DEFAULT_INTERVAL_S:g} seconds, or every --interval, until Ctrl-C.",
)
@json_option
@broker_options
def command(
    *,
    group_ids: tuple[str, ...],
    view: str,
    all_groups: bool,
    interval_s: float | None,
    last_commit: bool,
    watch: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Show the committed offsets and the lag of groups, their members, or their state.

    The offset of a share group is its start offset, which is kept with the decisions about records.
    Its lag leaves out the records behind it that are done with.

    The members of a streams group have tasks; --members shows these, and --state the topology. A
    partition belongs to the member with the active task that reads it.

    On a terminal there is a line for each group with its totals, and one table for all of them.
    With --verbose and in a pipe the tables are those of kafka-consumer-groups.

    Rates are those of the committed offsets, so --interval should be longer than the commit
    interval of the group. --last-commit reads the topic __consumer_offsets.
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("Name groups, or use --all-groups.")
    if view != "offsets" and (last_commit or (interval_s and not watch)):
        raise click.UsageError(
            "--interval and --last-commit show offsets, not --members or --state."
        )
    wanted = None if all_groups else group_ids
    with connected() as cluster:
        looks = looks_at(
            lambda before: _look(
                cluster, wanted, view, before, last_commit=last_commit, verbose=verbose
            ),
            interval_s,
            watch=watch,
        )
        for look in looks:
            rows = [row for _, rows in look.tables for row in rows]
            if as_json:
                print_json(rows, one_line=watch)
            elif verbose or not is_for_people():
                _print_as_kafka(look, view, verbose=verbose)
            else:
                print_for_people(look.tables, view)
            if look.failure:
                raise look.failure


class _Look(NamedTuple):
    """The groups at one time, with the rows of the view.

    Attributes:
        tables: the groups that exist and their rows.
        sample: their offsets, if the view shows them.
        shown: the optional columns of the offsets.
        failure: why a group is not shown.
    """

    tables: Tables
    sample: Sample | None
    shown: tuple[Column, ...]
    failure: CommandFailed | None


def _look(
    cluster: Cluster,
    group_ids: tuple[str, ...] | None,
    view: str,
    before: _Look | None,
    *,
    last_commit: bool,
    verbose: bool,
) -> _Look:
    """Read the groups; without `group_ids`, all of them."""
    if group_ids is None:
        group_ids = tuple(group.group_id for group in list_groups(cluster, types=TYPES))
    described = describe_groups(cluster, group_ids)
    found = [group for group in described.values() if group.exists]
    missing = [name for name, group in described.items() if not group.exists]
    failure = _not_shown(cluster, missing) if missing else None
    if view == "state":
        return _Look([(group, [state_row(group)]) for group in found], None, (), failure)
    if view == "members":
        ids = {member.member_id for group in found for member in group.members if verbose}
        software = client_software(cluster, ids) if verbose else {}
        tables = [(group, member_rows(group, software)) for group in found]
        return _Look(tables, None, (), failure)
    sample = take_sample(cluster, found)
    earlier = before.sample if before else None
    tables = []
    for group in found:
        committed = sample.committed[group.group_id]
        is_committed = last_commit and group.type != SHARE_GROUP
        times = commit_times(cluster, group.group_id, committed) if is_committed else {}
        tables.append((group, offset_rows(group, earlier, sample, times)))
    shown = (*(RATES if before else ()), *([LAST_COMMIT] if last_commit else []))
    return _Look(tables, sample, shown, failure)


def _not_shown(cluster: Cluster, group_ids: list[str]) -> CommandFailed:
    """Return why these groups are not shown: they do not exist, or the broker only lists them."""
    types = {group.group_id: group.type for group in list_groups(cluster)}
    for name in group_ids:
        if types.get(name, _CLASSIC) != _CLASSIC:
            return CommandFailed(
                f"Group '{printable(name)}' is a {types[name]} group.",
                f"This command describes groups of the types {', '.join(TYPES)},"
                " if the broker does.",
            )
    return no_such_groups(group_ids)


def _print_as_kafka(look: _Look, view: str, *, verbose: bool) -> None:
    """Print a table for each group with a blank line between them, as Kafka's tool does."""
    for n, (group, rows) in enumerate(look.tables):
        if n:
            click.echo()
        name = printable(group.group_id)
        if group.state == "Empty":
            note(f"Group '{name}' has no active members.")
        elif group.state == "NotReady":
            note(f"Group '{name}' is not ready: topics of its topology are missing or do not fit.")
        elif group.state not in ("Stable", "Dead"):
            note(f"Group '{name}' is rebalancing ({group.state}): this may change soon.")
        if view == "offsets" and not rows:
            note(f"Group '{name}' has no committed offsets and no assigned partitions.")
        else:
            columns = _COLUMNS[view](rows, verbose=verbose)
            print_table([*columns, *look.shown], rows, fitted=False)
        if view == "state" and verbose:
            print_topology([group])


def _offset_columns(_: Iterable[Row], *, verbose: bool) -> list[Column]:
    return [
        GROUP,
        Column("TOPIC", "topic"),
        Column("PARTITION", "partition", 10),
        *([Column("LEADER-EPOCH", "leader_epoch")] if verbose else []),
        Column("CURRENT-OFFSET", "current_offset"),
        Column("LOG-END-OFFSET", "log_end_offset"),
        LAG,
        CONSUMER_ID,
        HOST,
        CLIENT_ID,
    ]


def _member_columns(rows: Iterable[Row], *, verbose: bool) -> list[Column]:
    static = any(row["group_instance_id"] for row in rows)
    for row in rows:
        row["subscribed"] = row["subscription"], row["regex"]
    more = [
        Column("CURRENT-EPOCH", "member_epoch"),
        Column("CURRENT-ASSIGNMENT", "assignment", 20, assignment_text),
        Column("TARGET-EPOCH", "target_epoch"),
        Column("TARGET-ASSIGNMENT", "target_assignment", 20, assignment_text),
        # Kafka's tool ends here.
        Column("SUBSCRIPTION", "subscribed", 20, _subscribed_text),
    ]
    if any(row["client_software"] for row in rows):
        more += [
            Column("SOFTWARE", "client_software"),
            Column("VERSION", "client_software_version"),
        ]
    if any(row["principal"] for row in rows):
        more.append(Column("PRINCIPAL", "principal"))
    return [
        GROUP,
        CONSUMER_ID,
        *([Column("GROUP-INSTANCE-ID", "group_instance_id", 17)] if static else []),
        HOST,
        CLIENT_ID,
        Column("#PARTITIONS", "partition_count"),
        *work_columns(rows),
        *(more if verbose else []),
    ]


def _subscribed_text(subscribed: tuple[list[str] | None, str | None]) -> str:
    """Return the topics of a subscription, and its regular expression in slashes."""
    topics, regex = subscribed
    found = [*(topics or ()), *([f"/{regex}/"] if regex else [])]
    return ",".join(map(printable, found)) or NOTHING


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


_COLUMNS: dict[str, Callable[..., list[Column]]] = {
    "offsets": _offset_columns,
    "members": _member_columns,
    "state": _state_columns,
}
