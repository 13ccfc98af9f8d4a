"""`coterie groups`: list, describe, delete and reset consumer groups of any Kafka.

What stands in the tables is what kafka-consumer-groups shows under the same names; the keys of
`--json` are listed in docs/command-line.md and do not change.
"""

from collections.abc import Iterable, Sequence

import click

from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.groups_assign import assign
from coterie.cli.groups_delete_offsets import delete_offsets
from coterie.cli.groups_describe import describe
from coterie.cli.groups_history import history
from coterie.cli.groups_reset import reset_offsets
from coterie.cli.names import complete_groups
from coterie.cli.output import Column, by_state, json_option, print_json, print_table, printable
from coterie.cli.refusals import live_members, no_such_groups
from coterie.client.cluster import Cluster
from coterie.client.errors import error_name
from coterie.client.groups import (
    STATES,
    TYPES,
    Deletion,
    ListedGroup,
    delete_groups,
    describe_groups,
    list_groups,
)
from coterie.protocol.errors import ErrorCode

# Kafka's tool takes --state and --type with a value (a filter) and without (just show the column).
_NO_FILTER = ""


@click.group(short_help="List, describe, delete and reset consumer groups.")
@broker_options
def groups() -> None:
    """Consumer groups of any Kafka broker, over the wire protocol."""


@groups.command("list", short_help="List the groups.")
@click.option(
    "--state",
    is_flag=False,
    flag_value=_NO_FILTER,
    metavar="[STATE,...]",
    help="Show states; with a value only groups in these (Stable, Empty, ...).",
)
@click.option(
    "--type",
    "kind",
    is_flag=False,
    flag_value=_NO_FILTER,
    metavar="[TYPE,...]",
    help="Show types; with a value only groups of these (classic, consumer, ...).",
)
@click.option("--verbose", is_flag=True, help="Show types, protocol types and states.")
@json_option
@broker_options
def list_command(*, state: str | None, kind: str | None, verbose: bool, as_json: bool) -> None:
    """List the groups: their ids, one a line, or a table."""
    states, types = _filter("--state", state, STATES), _filter("--type", kind, TYPES)
    with connected() as cluster:
        found = list_groups(cluster, states, types)
    rows = [_list_row(group) for group in found]
    if as_json:
        print_json(rows)
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
            columns.append(Column("STATE", "state", 20, style=by_state))
        print_table(columns, rows)


@groups.command("delete", short_help="Delete groups that have no members.")
@click.argument(
    "group_ids", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups
)
@json_option
@broker_options
def delete(*, group_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete groups that have no members, with all their offsets."""
    with connected() as cluster:
        results = delete_groups(cluster, group_ids)
        failures = _failures(cluster, results)
    if as_json:
        print_json(
            [
                {
                    "group": result.group_id,
                    "deleted": not result.error,
                    "error": error_name(result.error) if result.error else None,
                }
                for result in results
            ]
        )
    else:
        for result in results:
            if not result.error:
                click.echo(f"Deleted group '{printable(result.group_id)}'.")
    if failures:
        raise CommandFailed("\n".join(failures))


groups.add_command(describe)
groups.add_command(history)
groups.add_command(assign)
groups.add_command(reset_offsets)
groups.add_command(delete_offsets)


def _filter(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    """The names in a filter.

    Raises:
        click.UsageError: one of them is none of `known`: nothing would be found, and silently.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name.lower() not in map(str.lower, known):
            raise click.UsageError(
                f"Invalid value for {option}: '{name}' is none of {', '.join(known)}."
            )
    return names


def _list_row(group: ListedGroup) -> dict[str, str]:
    return {
        "group": group.group_id,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "state": group.state,
    }


def _failures(cluster: Cluster, results: Iterable[Deletion]) -> list[str]:
    """A line for every group that was not deleted: why, and what to do."""
    lines: list[str] = []
    for result in results:
        name = printable(result.group_id)
        if result.error == ErrorCode.GROUP_ID_NOT_FOUND:
            lines.append(no_such_groups([result.group_id]).message)
        elif result.error == ErrorCode.NON_EMPTY_GROUP:
            group = describe_groups(cluster, [result.group_id])[result.group_id]
            lines.append(
                f"Group '{name}' is not empty: {live_members(group)}. Stop its members first."
            )
        elif result.error:
            words = f" ({result.message})" if result.message else ""
            lines.append(f"Group '{name}' was not deleted: {error_name(result.error)}{words}.")
    return lines
