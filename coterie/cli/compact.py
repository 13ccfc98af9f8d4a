"""`coterie compact`: compact the logs in the data directory of a broker that is not running."""

from typing import Any

import click

from coterie.cli.dump.log_files import PartitionFiles, complete_partitions
from coterie.cli.errors import CommandFailed
from coterie.cli.offline_compaction import Options, compact, locked_directory, select_partitions
from coterie.cli.options import json_option
from coterie.cli.output import (
    NOTHING,
    Column,
    Row,
    byte_progress,
    bytes_text,
    note,
    print_json,
    print_table,
)
from coterie.cli.values import LONG_NATURAL, RATIO

_STATE_STYLES = {"compacted": "green", "due": "yellow", "failed": "red", "not due": "dim"}


def _ratio_text(value: Any) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _state_style(value: Any) -> str:
    return _STATE_STYLES.get(str(value), "")


_PARTITION_COLUMNS = [
    Column("TOPIC", "topic", 20),
    Column("PARTITION", "partition", 9),
    Column("STATE", "state", 9, style=_state_style),
    Column("DIRTY-RATIO", "dirty_ratio", 11, _ratio_text),
]
_DRY_RUN_COLUMNS = [
    *_PARTITION_COLUMNS,
    Column("DIRTY", "dirty_bytes", 10, bytes_text),
    Column("BYTES", "bytes_before", 10, bytes_text),
    Column("SEGMENTS", "segments_before", 8),
]
_COLUMNS = [
    *_PARTITION_COLUMNS,
    Column("SEGMENTS", "segments_before", 8),
    Column("NOW", "segments_after", 5),
    Column("BYTES", "bytes_before", 10, bytes_text),
    Column("NOW", "bytes_after", 10, bytes_text),
    Column("RECORDS-READ", "records_read", 12),
    Column("KEPT", "records_kept", 9),
    Column("SECONDS", "seconds", 7),
    Column("MB/S", "mb_per_s", 6),
]


@click.command("compact")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="TOPIC-N",
    shell_complete=complete_partitions,
    help="Compact only this partition; repeatable.  [default: all partitions whose cleanup.policy"
    " includes compact]",
)
@click.option(
    "--include-active",
    is_flag=True,
    help="Close the active segments first, so that they are compacted too.",
)
@click.option(
    "--min-cleanable-ratio",
    type=RATIO,
    metavar="RATIO",
    help="Skip partitions with a smaller dirty ratio; 0 compacts everything that is dirty. "
    " [default: the topic's min.cleanable.dirty.ratio]",
)
@click.option(
    "--delete-retention-ms",
    type=LONG_NATURAL,
    metavar="MS",
    help="How long tombstones are kept after their first compaction.  [default: the topic's"
    " delete.retention.ms]",
)
@click.option("--dry-run", is_flag=True, help="Only show what is dirty; compact nothing.")
@click.option(
    "--force", is_flag=True, help="Compact a partition of --partition whatever its cleanup.policy."
)
@json_option
def command(
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
    """Compact the logs in the data directory DIR of a broker that is not running.

    The newest record of each key is kept, and all records keep their offsets. A running broker
    compacts by itself in the background; this command does it immediately and completely. It can be
    interrupted at any time without losing records. The exit code is 1 if a partition failed.
    """
    if force and not partitions:
        raise click.UsageError("--force is only for partitions named with --partition.")
    options = Options(include_active, dry_run, min_cleanable_ratio, delete_retention_ms)
    with locked_directory(directory) as locked:
        selected = select_partitions(locked, partitions, force=force)
        sizes = [
            PartitionFiles(f"{locked.path}/{each.name}", each.topic, each.partition).size_bytes()
            for each in selected
        ]
        rows = []
        with byte_progress("Compacting", sum(sizes), shown=not dry_run) as count_bytes:
            for partition, size in zip(selected, sizes, strict=True):
                left = size

                def count(done: int) -> None:
                    nonlocal left
                    # The dirty part is read twice: first for its keys, then to be copied.
                    counted = min(done // 2, left)
                    left -= counted
                    count_bytes(counted)

                rows.append(compact(locked, partition, options, count))
                count_bytes(left)
    if as_json:
        print_json(rows)
    else:
        print_table(_DRY_RUN_COLUMNS if dry_run else _COLUMNS, rows)
        _print_advice(rows, include_active=include_active)
    failed = [row for row in rows if row["error"]]
    if failed:
        errors = "; ".join(f"{row['topic']}-{row['partition']}: {row['error']}" for row in failed)
        raise CommandFailed(f"Not compacted: {errors}.")


def _print_advice(rows: list[Row], *, include_active: bool) -> None:
    """Print what to do if little or nothing was compacted."""
    if not rows:
        note("No partition in this directory has a cleanup.policy that includes compact.")
    elif any(row["state"] == "not due" and row["dirty_bytes"] for row in rows):
        note("The dirty ratio of some partitions is below the minimum. Use --min-cleanable-ratio 0")
        note("to compact them too.")
    elif not include_active and all(row["state"] == "not due" for row in rows):
        note("Only active segments are dirty. Use --include-active to compact them too.")
