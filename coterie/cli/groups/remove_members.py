"""`coterie groups remove-members`: remove members from a group, as an administrator does."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed
from coterie.cli.options import complete_groups, json_option, suggest
from coterie.cli.output import Row, print_json, printable
from coterie.client.cluster import Cluster
from coterie.client.errors import error_name
from coterie.client.groups import describe_groups, remove_members
from coterie.protocol.errors import ErrorCode

_REASON = "removed by an administrator"


def _complete_members(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids of the members of the group that --group names, with their client ids."""
    group_id = context.params.get("group_id")

    def members(cluster: Cluster) -> Iterable[tuple[str, str]]:
        found = describe_groups(cluster, [group_id]) if group_id else {}
        return [(each.member_id, each.client_id) for g in found.values() for each in g.members]

    return suggest(context, parameter, incomplete, members)


@click.command("remove-members")
@click.argument(
    "member_ids", metavar="MEMBER...", nargs=-1, required=True, shell_complete=_complete_members
)
@click.option(
    "--group", "group_id", required=True, metavar="GROUP", shell_complete=complete_groups,
    help="The group.",
)  # fmt: skip
@click.option(
    "--reason", default=_REASON, metavar="TEXT", show_default=True, help="What brokers log."
)
@json_option
@broker_options
def command(*, member_ids: tuple[str, ...], group_id: str, reason: str, as_json: bool) -> None:
    """Remove members from a group by their member ids; the group rebalances.

    A client that still runs notices it at its next heartbeat and joins again. `coterie groups
    describe --members` shows the ids. The exit code is 1 if a member was not removed.
    """
    wanted = list(dict.fromkeys(member_ids))
    with connected() as cluster:
        group = describe_groups(cluster, [group_id])[group_id]
        known = {each.member_id: each for each in group.members if each.member_id in wanted}
        errors = remove_members(cluster, group_id, known.values(), reason) if known else {}
    rows: list[Row] = []
    for each in wanted:
        error = errors.get(each, ErrorCode.UNKNOWN_MEMBER_ID)
        rows.append(
            {
                "group": group_id,
                "member_id": each,
                "client_id": known[each].client_id if each in known else None,
                "removed": not error,
                "error": error_name(error) if error else None,
            }
        )
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["removed"]:
                click.echo(f"Removed member '{printable(row['member_id'])}'.")
    failed = [row for row in rows if not row["removed"]]
    if failed:
        name = printable(group_id)
        raise CommandFailed(
            "\n".join(
                f"Member '{printable(row['member_id'])}' of group '{name}' was not removed:"
                f" {row['error']}."
                for row in failed
            ),
            "`coterie groups describe --members` shows who is a member.",
        )
