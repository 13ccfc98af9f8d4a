"""`coterie pipeline replay`: replay the recorded history with another assignor."""

from typing import TYPE_CHECKING, Any

import click

from coterie.assignors.by_name import ASSIGNORS
from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, note, print_json, print_table, printable
from coterie.cli.pipeline.session import (
    EngineOptions,
    complete_stored_groups,
    engine_options,
    pipeline_errors,
    started_engine,
)
from coterie.client.names import counted

if TYPE_CHECKING:
    from coterie.pipeline.what_if import Rooms

# The names of `coterie.pipeline.what_if`, which can't be imported without the extra.
_WITH_ROOMS = ("by-config", "by-machine-room", "nearby")


def _count_text(value: Any) -> str:
    return "?" if value is None else f"{value:,}"


_COLUMNS = [
    Column("GROUP", "group", 20),
    Column("ASSIGNOR", "was", 12),
    Column("REBALANCES", "rebalances", 10, _count_text),
    Column("MOVED", "recorded_moved", 6, _count_text),
    Column("REPLAYED", "moved", 8, _count_text),
    Column("NEEDLESS", "recorded_needless", 8, _count_text),
    Column("REPLAYED", "needless", 8, _count_text),
    Column("UNOWNED-MS", "recorded_unowned_ms", 10, _count_text),
    Column("REPLAYED", "unowned_ms", 10, _count_text),
]
_SUMMED = (
    "rebalances",
    "left_out",
    "recorded_moved",
    "moved",
    "recorded_needless",
    "needless",
    "timed",
    "recorded_unowned_ms",
    "unowned_ms",
)


@click.command("replay")
@click.argument("directory", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--assignor",
    required=True,
    type=click.Choice([*ASSIGNORS, *_WITH_ROOMS]),
    help="Assignor to replay with.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="GROUP",
    shell_complete=complete_stored_groups,
    help="Replay only this group; repeatable.",
)
@click.option(
    "--rooms",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="CSV file for by-machine-room and nearby, with lines of partition (topic-0) or member, and"
    " room; for by-config, with lines of partition and member.",
)
@click.option(
    "--parquet",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write each rebalance of each group to this file.",
)
@json_option
@engine_options
def command(
    *,
    directory: str,
    assignor: str,
    groups: tuple[str, ...],
    rooms: str | None,
    parquet: str | None,
    as_json: bool,
    options: EngineOptions,
) -> None:
    """Replay the recorded history of groups with another assignor.

    The same members come and go at the same times, but the assignments are made by the other
    assignor. The columns show what happened, and beside it, REPLAYED, what would have happened: the
    partitions that moved, the needless moves among them, and the time that partitions had no owner,
    summed over partitions.
    """
    if assignor in _WITH_ROOMS and rooms is None:
        raise click.UsageError(f"--assignor {assignor} needs --rooms FILE.")
    with pipeline_errors():
        from coterie.pipeline.extent import is_little
        from coterie.pipeline.jobs.replay import replay_groups
        from coterie.pipeline.replay_rows import summed
        from coterie.pipeline.store import Store
        from coterie.pipeline.what_if import ASSUMPTIONS

        store = Store.reading(directory)
        known_rooms = _read_rooms(rooms)
        little = is_little(directory)
        with started_engine("coterie pipeline replay", options, little=little) as engine:
            table = replay_groups(engine, store, assignor, groups=groups, rooms=known_rooms)
        if parquet is not None:
            import pyarrow.parquet as pq

            pq.write_table(table, parquet)
    rows = [summed(row) for row in table.to_pylist()]
    unknown = sorted(set(groups) - {row["group"] for row in rows})
    if unknown:
        names = ", ".join(f"'{printable(name)}'" for name in unknown)
        raise CommandFailed(
            f"Nothing is recorded of {names}.", "Give the exact names of groups with --group."
        )
    total = _total(rows)
    if as_json:
        print_json({"groups": rows, "total": total, "assumptions": list(ASSUMPTIONS)})
        return
    _print(rows, total, ASSUMPTIONS)


def _read_rooms(path: str | None) -> "Rooms | None":
    from coterie.pipeline.jobs.replay import BadRooms, read_rooms

    if path is None:
        return None
    try:
        return read_rooms(path)
    except BadRooms as error:
        raise CommandFailed(f"{error}.") from None


def _total(rows: list[Row]) -> Row:
    """Return the sums over all groups; None where no group has a number."""
    total: Row = {"group": None}
    for name in _SUMMED:
        known = [row[name] for row in rows if row[name] is not None]
        total[name] = sum(known) if known else None
    return total


def _print(rows: list[Row], total: Row, assumptions: tuple[str, ...]) -> None:
    shown = [{**row, "was": ", ".join(row["recorded_protocols"])} for row in rows]
    print_table(_COLUMNS, [*shown, {**total, "group": counted(len(rows), "group")}])
    for row in rows:
        if row["problem"] is not None:
            note(f"Group '{printable(row['group'])}' was not replayed: {row['problem']}.")
    if total["left_out"]:
        left_out = counted(total["left_out"], "rebalance", "is", "are")
        note(f"{left_out} left out: the subscriptions are not known.")
    if total["timed"] != total["rebalances"]:
        note(
            "The times without an owner are those of"
            f" {counted(total['timed'] or 0, 'rebalance', 'that is', 'that are')} in the journal."
        )
    note("Assumptions:")
    for line in assumptions:
        note(f"  {line}")
