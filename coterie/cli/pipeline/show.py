"""`coterie pipeline show`: the rebalances of one group, in the terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import print_json, print_line, printable
from coterie.cli.pipeline.printed_stories import print_stories
from coterie.cli.pipeline.rebalance_stories import rebalance_stories
from coterie.cli.pipeline.session import complete_stored_groups, pipeline_errors
from coterie.cli.values import NATURAL
from coterie.client.names import counted

if TYPE_CHECKING:
    from coterie.pipeline.show import Commits

# The number of groups that an error names; a cluster may have thousands.
_NAMED_GROUPS = 10


@click.command("show")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_stored_groups)
@click.option("--limit", type=NATURAL, metavar="N", help="Show only the last N rebalances.")
@json_option
def command(*, directory: str, group_id: str, limit: int | None, as_json: bool) -> None:
    """Show the rebalances of a group: when, why and by which member each began, how long its phases
    took, how long partitions had no owner, what moved, and the partitions of each member.

    DIR is the output of `coterie pipeline run`, or the data directory of a broker. A data directory
    is read directly, whether its broker runs or not, and without Spark.
    """
    with pipeline_errors():
        from coterie.pipeline.segments import topic_names
        from coterie.pipeline.show import known_groups, read_commits, read_story

        story = read_story(directory, group_id, topic_names(directory))
        if story is None:
            commits = read_commits(directory, group_id)
            if commits is None:
                raise _unknown_group(group_id, known_groups(directory))
            _print_commits(commits, as_json=as_json)
            return
    stories = rebalance_stories(story.group.tables, story.moves, story.generations)
    print_stories(group_id, stories, limit, as_json=as_json)


def _print_commits(commits: "Commits", *, as_json: bool) -> None:
    """Print what is known of a group whose consumers assign partitions themselves."""
    if as_json:
        print_json([])
        return
    first, last = (
        datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for at_ms in (commits.first_ms, commits.last_ms)
    )
    text = (
        f"{counted(commits.commits, 'commit')}, no group management:"
        f" {counted(commits.partitions, 'partition')}, from {first} to {last} UTC"
    )
    print_line([(text, "")])


def _unknown_group(group_id: str, known: Sequence[str]) -> CommandFailed:
    cause = f"Nothing is recorded of group '{printable(group_id)}'"
    if not known:
        return CommandFailed(f"{cause}, nor of any other group.")
    named = ", ".join(printable(each) for each in known[:_NAMED_GROUPS])
    more = f" and {len(known) - _NAMED_GROUPS} more" if len(known) > _NAMED_GROUPS else ""
    return CommandFailed(f"{cause}.", f"The recorded groups are: {named}{more}.")
