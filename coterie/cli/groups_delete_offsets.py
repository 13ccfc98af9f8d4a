"""`coterie groups delete-offsets`: forget offsets of topics that a group no longer reads."""

import click

from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.names import group_option, topic_option
from coterie.cli.output import Column, json_option, print_json, print_table, printable
from coterie.cli.refusals import no_such_groups
from coterie.client.errors import error_name
from coterie.client.offsets import delete_offsets as forget_offsets
from coterie.client.resetting import resolve_partitions
from coterie.protocol.errors import ErrorCode

_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("STATUS", "status"),
]


@click.command("delete-offsets", short_help="Forget committed offsets of topics.")
@group_option
@topic_option(required=True, about="A topic the group no longer reads, or some of its partitions.")
@json_option
@broker_options
def delete_offsets(*, group_id: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Forget what a group has committed for topics it does not read any more."""
    with connected() as cluster:
        partitions = resolve_partitions(cluster, scopes)
        group_error, errors = forget_offsets(cluster, group_id, partitions)
    unanswered = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    outcome = {part: group_error or errors.get(part, unanswered) for part in partitions}
    rows = [
        {
            "group": group_id,
            "topic": topic,
            "partition": index,
            "deleted": not error,
            "error": error_name(error) if error else None,
        }
        for (topic, index), error in outcome.items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, [{**row, "status": row["error"] or "Successful"} for row in rows])
    if any(outcome.values()):
        raise _refusal(group_id, set(outcome.values()))


def _refusal(group_id: str, errors: set[int]) -> CommandFailed:
    name = printable(group_id)
    if ErrorCode.GROUP_ID_NOT_FOUND in errors:
        return no_such_groups([group_id])
    if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in errors:
        return CommandFailed(
            f"Group '{name}' is still subscribed to some of these topics.",
            "Stop the members that read them: `coterie groups describe --members` names them.",
        )
    names = ", ".join(error_name(error) for error in sorted(errors) if error)
    return CommandFailed(f"Not all of these offsets of group '{name}' were deleted: {names}.")
