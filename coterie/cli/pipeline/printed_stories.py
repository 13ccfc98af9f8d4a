"""The rebalances of a group as they are printed, whatever they were read from.

`coterie pipeline show` has them from a directory, `coterie groups history --rebalances` from a
broker that runs.
"""

from collections.abc import Sequence

from coterie.cli.output import Row, note, print_json, print_line, printable
from coterie.cli.pipeline.rebalance_events import rebalance_events
from coterie.cli.pipeline.rebalance_stories import RebalanceStory
from coterie.cli.timeline import Timeline, by_topic
from coterie.client.times import time_text


def print_stories(
    group_id: str, stories: Sequence[RebalanceStory], limit: int | None, *, as_json: bool
) -> None:
    """Print rebalances.

    Args:
        group_id: the group.
        stories: all of its rebalances.
        limit: only the last of them; None for all.
        as_json: whether to print JSON.
    """
    shown = stories if limit is None else stories[max(0, len(stories) - limit) :]
    if as_json:
        print_json([_row(each) for each in shown])
        return
    if not stories:
        note(f"No rebalances of group '{printable(group_id)}' are recorded.")
        return
    timeline = Timeline()
    for each in shown:
        for event in rebalance_events(each):
            for line in timeline.lines(event):
                print_line(line)


def _row(story: RebalanceStory) -> Row:
    """Return a rebalance with the columns of its table, its moves, and its generations."""
    row = _with_times(story.row)
    row["moves"] = [_without_group(move) for move in story.moves]
    row["steps"] = [
        {
            "generation": step.generation,
            "at_ts": time_text(step.at_ms),
            "owned": {
                key: by_topic(partitions)
                for key, partitions in sorted(step.ownership.by_member.items())
            },
        }
        for step in story.steps
    ]
    return row


def _without_group(row: Row) -> Row:
    return {name: value for name, value in _with_times(row).items() if name != "group_id"}


def _with_times(row: Row) -> Row:
    """Return a row with its timestamps as text."""
    return {
        name: time_text(value) if name.endswith("_ts") and value is not None else value
        for name, value in row.items()
    }
