"""`coterie pipeline replay`: what another assignor would have done with the recorded history."""

from typing import TYPE_CHECKING, Any

import click

from coterie.assignors import ASSIGNORS
from coterie.cli.broker import CommandFailed
from coterie.cli.output import (
    Column,
    Row,
    json_option,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.pipeline_session import (
    complete_stored_groups,
    spark_options,
    spark_session,
    told_errors,
)

if TYPE_CHECKING:
    from coterie.pipeline.what_if import Rooms

# As `coterie.pipeline.what_if.NAMES` has them; that module needs the extra.
_WITH_ROOMS = ("by-config", "by-machine-room", "nearby")


def _count(value: Any) -> str:
    return "?" if value is None else f"{value:,}"


_COLUMNS = [
    Column("GROUP", "group", 20),
    Column("WAS", "was", 12),
    Column("REBALANCES", "rebalances", 10, _count),
    Column("MOVED WAS", "recorded_moved", 9, _count),
    Column("THEN", "moved", 8, _count),
    Column("NEEDLESS WAS", "recorded_needless", 12, _count),
    Column("THEN", "needless", 8, _count),
    Column("UNOWNED-MS WAS", "recorded_unowned_ms", 14, _count),
    Column("THEN", "unowned_ms", 12, _count),
]
_SUMS = (
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


@click.command("replay", short_help="Tell what another assignor would have done.")
@click.argument("directory", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--assignor",
    required=True,
    type=click.Choice([*ASSIGNORS, *_WITH_ROOMS]),
    help="Who would have assigned.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="GROUP",
    shell_complete=complete_stored_groups,
    help="Only this group; repeatable.",
)
@click.option(
    "--rooms",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="CSV of partition (topic-0) or member, and its room, for by-machine-room and nearby; of"
    " partition and member for by-config.",
)
@click.option(
    "--parquet",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write every rebalance of every group there, too.",
)
@json_option
@spark_options
def replay(
    *,
    directory: str,
    assignor: str,
    groups: tuple[str, ...],
    rooms: str | None,
    parquet: str | None,
    as_json: bool,
    master: str | None,
    settings: dict[str, str],
) -> None:
    """Run the recorded history of groups again under another assignor: the same members come and
    go at the same times, and who gets what is worked out anew. Tells what would have moved, what
    of it needlessly, and for how long partitions would have had no owner, in partitions x
    milliseconds; WAS is what really happened, THEN what would have.
    """
    if assignor in _WITH_ROOMS and rooms is None:
        raise click.UsageError(f"--assignor {assignor} needs --rooms FILE.")
    with told_errors():
        from coterie.pipeline.extent import is_little
        from coterie.pipeline.jobs.replay import replay_groups, summed
        from coterie.pipeline.store import Store
        from coterie.pipeline.what_if import ASSUMPTIONS

        store = Store.reading(directory)
        stands = _rooms(rooms)
        little = is_little(directory)
        with spark_session("coterie pipeline replay", master, settings, little=little) as spark:
            table = replay_groups(spark, store, assignor, groups=groups, rooms=stands)
        if parquet is not None:
            import pyarrow.parquet as pq

            pq.write_table(table, parquet)
    rows = [summed(row) for row in table.to_pylist()]
    unknown = sorted(set(groups) - {row["group"] for row in rows})
    if unknown:
        names = ", ".join(f"'{printable(name)}'" for name in unknown)
        raise CommandFailed(f"Nothing is recorded of {names}.", "Groups go by their exact names.")
    total = _total(rows)
    if as_json:
        print_json({"groups": rows, "total": total, "assumptions": list(ASSUMPTIONS)})
        return
    _print(rows, total, ASSUMPTIONS)


def _rooms(path: str | None) -> "Rooms | None":
    from coterie.pipeline.jobs.replay import BadRooms, read_rooms

    if path is None:
        return None
    try:
        return read_rooms(path)
    except BadRooms as error:
        raise CommandFailed(f"{error}.") from None


def _total(rows: list[Row]) -> Row:
    """Sums over all groups; null where no group knows."""
    total: Row = {"group": None}
    for name in _SUMS:
        known = [row[name] for row in rows if row[name] is not None]
        total[name] = sum(known) if known else None
    return total


def _print(rows: list[Row], total: Row, assumptions: tuple[str, ...]) -> None:
    shown = [{**row, "was": ", ".join(row["recorded_protocols"])} for row in rows]
    print_table(_COLUMNS, [*shown, {**total, "group": f"all {len(rows)} groups"}])
    for row in rows:
        if row["problem"] is not None:
            note(f"Group '{printable(row['group'])}' was not replayed: {row['problem']}.")
    if total["left_out"]:
        note(f"{total['left_out']} rebalances are left out: their subscriptions are not known.")
    if total["timed"] != total["rebalances"]:
        note(
            f"Times without an owner are those of {total['timed'] or 0} rebalances that the journal"
            " has."
        )
    note("Assumed:")
    for line in assumptions:
        note(f"  {line}")
