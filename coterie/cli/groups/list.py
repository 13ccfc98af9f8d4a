"""`coterie groups list`: the groups of a cluster."""

from collections.abc import Sequence

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.groups.looks import interval_option
from coterie.cli.groups.totals import count_of_states, list_totals, print_totals
from coterie.cli.options import json_option
from coterie.cli.output import (
    Column,
    Row,
    is_for_people,
    note,
    print_json,
    print_table,
    printable,
    state_style,
)
from coterie.client.groups import STATES, TYPES, list_groups

# Kafka's tool accepts --state and --type with a value (a filter) and without (show the column).
_NO_FILTER = ""


@click.command("list")
@click.option(
    "--state",
    is_flag=False,
    flag_value=_NO_FILTER,
    metavar="[STATE,...]",
    help="Show the states; with a value, only groups in these states (Stable, Empty, ...).",
)
@click.option(
    "--type",
    "kind",
    is_flag=False,
    flag_value=_NO_FILTER,
    metavar="[TYPE,...]",
    help="Show the types; with a value, only groups of these types (classic, share, ...).",
)
@click.option("--verbose", is_flag=True, help="Show types, protocol types and states.")
@click.option("--lag", is_flag=True, help="Show members, partitions and total lag of each group.")
@interval_option
@json_option
@broker_options
def command(
    *,
    state: str | None,
    kind: str | None,
    verbose: bool,
    lag: bool,
    interval_s: float | None,
    as_json: bool,
) -> None:
    """List the groups.

    On a terminal the list is a table. In a pipe it has the ids of the groups, one a line; with
    --state, --type or --verbose it is the table of kafka-consumer-groups.

    With --lag there is a line for each group with its totals. Partitions without a committed offset
    have no lag; their number is shown. --interval adds the records each second.
    """
    states, types = _filter("--state", state, STATES), _filter("--type", kind, TYPES)
    if interval_s is not None and not lag:
        raise click.UsageError("--interval needs --lag: it shows how the lags change.")
    with connected() as cluster:
        if lag:
            totals = list_totals(cluster, states, types, interval_s)
            print_totals(totals, as_json=as_json, verbose=verbose)
            return
        found = list_groups(cluster, states, types)
    rows = [
        {
            "group": group.group_id,
            "type": group.type,
            "protocol_type": group.protocol_type,
            "state": group.state,
        }
        for group in found
    ]
    if as_json:
        print_json(rows)
    elif is_for_people() and not verbose:
        _print_for_people(rows)
    elif state is None and kind is None and not verbose:
        for group in found:
            click.echo(printable(group.group_id))
    else:
        columns = [Column("GROUP", "group", 25)]
        if kind is not None or verbose:
            columns.append(Column("TYPE", "type", 20, lambda value: str(value).capitalize()))
        if verbose:
            columns.append(Column("PROTOCOL", "protocol_type", 20))
        if state is not None or verbose:
            columns.append(Column("STATE", "state", 20, style=state_style))
        print_table(columns, rows, fitted=False)


def _print_for_people(rows: list[Row]) -> None:
    columns = [
        Column("GROUP", "group"),
        Column("STATE", "state", style=state_style),
        Column("TYPE", "type"),
        Column("PROTOCOL", "protocol_type"),
    ]
    print_table(columns, rows)
    note(count_of_states(rows))


def _filter(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    """Return the names in the value of a filter.

    Raises:
        click.UsageError: a name is not one of `known`, so that a misspelt filter is reported
            instead of giving an empty list.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name.lower() not in map(str.lower, known):
            raise click.UsageError(
                f"Invalid value for {option}: '{name}' is not one of {', '.join(known)}."
            )
    return names
