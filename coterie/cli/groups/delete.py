"""`coterie groups delete`: delete groups that have no members."""

from collections.abc import Iterable

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, live_members_text, no_such_groups
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import print_json, printable
from coterie.client.cluster import Cluster
from coterie.client.errors import error_name
from coterie.client.groups import Deletion, delete_groups, describe_groups
from coterie.protocol.errors import ErrorCode


@click.command("delete")
@click.argument(
    "group_ids", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups
)
@json_option
@broker_options
def command(*, group_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete groups that have no members, with all their offsets.

    The exit code is 1 if a group was not deleted.
    """
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


def _failures(cluster: Cluster, results: Iterable[Deletion]) -> list[str]:
    """Return the cause and the remedy for each group that was not deleted."""
    lines: list[str] = []
    for result in results:
        name = printable(result.group_id)
        if result.error == ErrorCode.GROUP_ID_NOT_FOUND:
            lines.append(no_such_groups([result.group_id]).message)
        elif result.error == ErrorCode.NON_EMPTY_GROUP:
            group = describe_groups(cluster, [result.group_id])[result.group_id]
            lines.append(
                f"Group '{name}' is not empty: {live_members_text(group)}. Stop its members first."
            )
        elif result.error:
            message = f" ({result.message})" if result.message else ""
            lines.append(f"Group '{name}' was not deleted: {error_name(result.error)}{message}.")
    return lines
