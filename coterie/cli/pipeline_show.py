"""`coterie pipeline show`: the story of one group, in the terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.log_files import topic_names
from coterie.cli.output import Row, json_option, note, print_json, print_styled, printable
from coterie.cli.pipeline_session import complete_stored_groups, told_errors
from coterie.cli.pipeline_story import StoryText, ToldRebalance, told_rebalances


@click.command("show", short_help="Tell the story of one group in the terminal.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_stored_groups)
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="The last N rebalances only."
)
@json_option
def show(*, directory: str, group_id: str, limit: int | None, as_json: bool) -> None:
    """Tell the story of a group: each rebalance with its time, why it came about and by whom, how
    long its phases took, how long partitions had no owner, what moved, and who owned what then.

    DIR is the output of `coterie pipeline run`, or a broker's data directory: that is read as it
    is, whether its broker runs or not, and needs no Spark.
    """
    with told_errors():
        from coterie.pipeline.show import known_groups, read_story

        story = read_story(directory, group_id, topic_names(directory))
        if story is None:
            raise _unknown(group_id, known_groups(directory))
    told = told_rebalances(story.group.tables, story.moves, story.generations)
    shown = told if limit is None else told[max(0, len(told) - limit) :]
    if as_json:
        print_json([_row(each) for each in shown])
        return
    if not told:
        note(f"Group '{printable(group_id)}' has no rebalances on record.")
        return
    text = StoryText()
    for each in shown:
        for line in text.lines(each):
            print_styled(line)


# Groups named in an error; a cluster may have thousands.
_NAMED_GROUPS = 10


def _unknown(group_id: str, known: Sequence[str]) -> CommandFailed:
    unknown = f"Nothing is known of group '{printable(group_id)}'"
    if not known:
        return CommandFailed(f"{unknown}, nor of any other.")
    named = ", ".join(printable(each) for each in known[:_NAMED_GROUPS])
    more = f" and {len(known) - _NAMED_GROUPS} more" if len(known) > _NAMED_GROUPS else ""
    return CommandFailed(f"{unknown}.", f"There are: {named}{more}.")


def _row(told: ToldRebalance) -> Row:
    """A rebalance with the columns of its table, its moves, and its generations' owners."""
    row = _with_times(told.row)
    row["moves"] = [_without_group(move) for move in told.moves]
    row["steps"] = [
        {
            "generation": step.generation,
            "at_ts": _time(step.at_ms),
            "owned": {key: _by_topic(places) for key, places in sorted(step.state.owned.items())},
        }
        for step in told.steps
    ]
    return row


def _without_group(row: Row) -> Row:
    return {name: value for name, value in _with_times(row).items() if name != "group_id"}


def _with_times(row: Row) -> Row:
    return {
        name: _time(value) if name.endswith("_ts") and value is not None else value
        for name, value in row.items()
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _by_topic(places: Sequence[tuple[str, int]]) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics
