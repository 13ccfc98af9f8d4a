"""`coterie groups list`: the groups of a cluster."""

from collections import Counter
from collections.abc import Sequence

import click

from coterie.cli.broker import broker_options, connected
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
    help="Show the types; with a value, only groups of these types (classic, consumer, ...).",
)
@click.option("--verbose", is_flag=True, help="Show types, protocol types and states.")
@json_option
@broker_options
def command(*, state: str | None, kind: str | None, verbose: bool, as_json: bool) -> None:
    """List the groups.

    On a terminal the list is a table. In a pipe it has the ids of the groups, one a line; with
    --state, --type or --verbose it is the table of kafka-consumer-groups.
    """
    states, types = _filter("--state", state, STATES), _filter("--type", kind, TYPES)
    with connected() as cluster:
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
    states = Counter(row["state"] for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    note(f"{len(rows)} group{'' if len(rows) == 1 else 's'}" + (f": {counts}" if counts else ""))


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
