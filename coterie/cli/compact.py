"""`coterie compact`: compact the logs of a data directory while no server uses it."""

from typing import Any

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.log_files import PartitionFiles, complete_partitions
from coterie.cli.output import NOTHING, Column, json_option, note, print_json, print_table
from coterie.cli.progress import byte_progress

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT_STEP = 1024
_STATE_STYLES = {"compacted": "green", "due": "yellow", "failed": "red", "not due": "dim"}


def _bytes_text(value: Any) -> str:
    if value is None:
        return NOTHING
    size = float(value)
    for unit in _UNITS[:-1]:
        if size < _UNIT_STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _UNIT_STEP
    return f"{size:.1f} {_UNITS[-1]}"


def _ratio_text(value: Any) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _state_style(value: Any) -> str:
    return _STATE_STYLES.get(str(value), "")


_PLACE = [Column("TOPIC", "topic", 20), Column("PARTITION", "partition", 9)]
_DIRTY = [
    Column("STATE", "state", 9, style=_state_style),
    Column("DIRTY-RATIO", "dirty_ratio", 11, _ratio_text),
]
_DRY_COLUMNS = [
    *_PLACE,
    *_DIRTY,
    Column("DIRTY", "dirty_bytes", 10, _bytes_text),
    Column("BYTES", "bytes_before", 10, _bytes_text),
    Column("SEGMENTS", "segments_before", 8),
]
_COLUMNS = [
    *_PLACE,
    *_DIRTY,
    Column("SEGMENTS", "segments_before", 8),
    Column("NOW", "segments_after", 5),
    Column("BYTES", "bytes_before", 10, _bytes_text),
    Column("NOW", "bytes_after", 10, _bytes_text),
    Column("RECORDS-READ", "records_read", 12),
    Column("KEPT", "records_kept", 9),
    Column("SECONDS", "seconds", 7),
    Column("MB/S", "mb_per_s", 6),
]


@click.command("compact", short_help="Compact the logs of a data directory that no server uses.")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="TOPIC-N",
    shell_complete=complete_partitions,
    help="Only this partition; repeatable. By default all whose cleanup.policy has compact.",
)
@click.option(
    "--include-active",
    is_flag=True,
    help="End the active segments, which compaction leaves alone, so that they are compacted too.",
)
@click.option(
    "--min-cleanable-ratio",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Leave alone what is less dirty; 0 compacts whatever is dirty.  [default: the topic's"
    " min.cleanable.dirty.ratio]",
)
@click.option(
    "--delete-retention-ms",
    type=click.IntRange(0),
    metavar="MS",
    help="How long tombstones stay after their first compaction.  [default: the topic's"
    " delete.retention.ms]",
)
@click.option("--dry-run", is_flag=True, help="Only tell what is dirty; compact nothing.")
@click.option("--force", is_flag=True, help="Compact a named partition whatever its policy is.")
@json_option
def compact(
    *,
    directory: str,
    partitions: tuple[str, ...],
    include_active: bool,
    min_cleanable_ratio: float | None,
    delete_retention_ms: int | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Compact the logs in the data directory DIR, which no server may use meanwhile.

    Of each key the newest record stays, and every record keeps its offset. A running server does
    this by itself; here it is done at once and to the end. Stopping it loses nothing.
    """
    # Imported here, for the help needs no storage.
    from coterie.cli.compacting import Wanted, chosen_targets, held_directory
    from coterie.cli.compacting import compact as compact_one

    if force and not partitions:
        raise click.UsageError("--force is for partitions named with --partition.")
    wanted = Wanted(include_active, dry_run, min_cleanable_ratio, delete_retention_ms)
    with held_directory(directory) as held:
        targets = chosen_targets(held, partitions, force=force)
        sizes = [
            PartitionFiles(f"{held.path}/{target.name}", target.topic, target.partition).size()
            for target in targets
        ]
        rows = []
        with byte_progress("Compacting", sum(sizes), wanted=not dry_run) as note_bytes:
            for target, size in zip(targets, sizes, strict=True):
                left = size

                def done(count: int) -> None:
                    nonlocal left
                    # A cleaning reads what is dirty twice: for the keys, and to copy it.
                    counted = min(count // 2, left)
                    left -= counted
                    note_bytes(counted)

                rows.append(compact_one(held, target, wanted, done))
                note_bytes(left)
    if as_json:
        print_json(rows)
    else:
        print_table(_DRY_COLUMNS if dry_run else _COLUMNS, rows)
        _remark(rows, wanted.include_active)
    failed = [row for row in rows if row["error"]]
    if failed:
        names = "; ".join(f"{row['topic']}-{row['partition']}: {row['error']}" for row in failed)
        raise CommandFailed(f"Not compacted: {names}.")


def _remark(rows: list[dict[str, Any]], include_active: bool) -> None:  # noqa: FBT001 - an option
    """What to do where little was done."""
    if not rows:
        note("No partition here has a cleanup.policy of compact.")
    elif any(row["state"] == "not due" and row["dirty_bytes"] for row in rows):
        note("Partitions that are not due are less dirty than the ratio; --min-cleanable-ratio 0")
        note("compacts them all the same.")
    elif not include_active and all(row["state"] == "not due" for row in rows):
        note("Nothing is dirty but the active segments; --include-active compacts those too.")
