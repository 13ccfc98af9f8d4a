"""`coterie dump log`: what stands in the files of a log, for people or as JSON lines.

Reads only, in bounded memory; the directory may be in use by a running server. Damage is told where
it is met and the rest is shown all the same.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.log_files import complete_partitions, find_partitions, topic_names
from coterie.cli.output import in_colour, note
from coterie.cli.progress import byte_progress

if TYPE_CHECKING:
    from coterie.cli.log_files import PartitionFiles
    from coterie.cli.log_rows import Row
    from coterie.cli.log_text import Line
    from coterie.cli.log_walk import Batch

# From here on a dump into a file takes long enough for a bar of progress.
_BIG_LOG_BYTES = 64 << 20


class _Wanted(NamedTuple):
    """What is to be shown."""

    from_offset: int
    to_offset: int | None
    groups: frozenset[bytes] | None
    values: str
    batches: bool
    limit: int | None


class _Printer:
    """Prints rows, and counts what was shown and what was wrong."""

    def __init__(self, wanted: _Wanted, names: dict[str, str], *, as_json: bool) -> None:
        self.shown = 0
        self.damaged = 0
        self._wanted = wanted
        self._names = names
        self._as_json = as_json
        self._colour = in_colour()
        self._headed = ""

    @property
    def full(self) -> bool:
        """Whether as much was shown as was wanted."""
        return self._wanted.limit is not None and self.shown >= self._wanted.limit

    def entry(self, row: "Row") -> None:
        """A batch or a record."""
        from coterie.cli.log_text import batch_line, record_lines

        self.shown += 1
        if (row.get("error") or "").startswith("malformed"):
            self.damaged += 1
        if self._as_json:
            self._json(row)
        elif row["kind"] == "batch":
            self._lines(row, [batch_line(row)])
        else:
            self._lines(row, record_lines(row, self._names))

    def damage(self, row: "Row") -> None:
        """Damage, or a torn tail."""
        from coterie.cli.log_text import damage_line

        self.damaged += row["kind"] == "damage"
        if self._as_json:
            self._json(row)
        else:
            self._lines(row, [damage_line(row)])

    def _json(self, row: "Row") -> None:
        sys.stdout.write(json.dumps(row) + "\n")

    def _lines(self, row: "Row", lines: "list[Line]") -> None:
        if row["file"] != self._headed:
            # Not flushed line by line, as click.echo does: a dump has millions.
            self._write([("" if not self._headed else "\n", ""), (row["file"], "bold")])
            self._headed = row["file"]
        for line in lines:
            self._write(line)

    def _write(self, line: "Line") -> None:
        if self._colour:
            text = "".join(_styled(part, style) for part, style in line)
        else:
            text = "".join(part for part, _ in line)
        sys.stdout.write(text.rstrip(" ") + "\n")


def _styled(text: str, style: str) -> str:
    if not style:
        return text
    return click.style(text, bold=True) if style == "bold" else click.style(text, fg=style)


@click.command("log", short_help="Show the batches and records in the files of a log.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="TOPIC-N",
    shell_complete=complete_partitions,
    help="Only this partition of a data directory; repeatable, and * stands for anything.",
)
@click.option("--from-offset", type=click.IntRange(0), default=0, help="The first offset to show.")
@click.option("--to-offset", type=click.IntRange(0), help="The last offset to show.")
@click.option(
    "--group",
    "group_ids",
    multiple=True,
    metavar="GROUP",
    help="Only this group's records of __consumer_offsets; repeatable.",
)
@click.option("--batches", is_flag=True, help="The headers of batches instead of their records.")
@click.option(
    "--values",
    type=click.Choice(("auto", "offsets", "text", "raw")),
    default="auto",
    show_default=True,
    help="How keys and values are read: as records of __consumer_offsets, as text (hexadecimal"
    " where they are none), not at all; by default as the topic's name says.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after so many lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def log(
    *,
    paths: tuple[str, ...],
    partitions: tuple[str, ...],
    from_offset: int,
    to_offset: int | None,
    group_ids: tuple[str, ...],
    batches: bool,
    values: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show what stands in a log: a segment's .log file, a partition's directory, or a data
    directory, ours or Kafka's.

    Nothing is written or locked, so a running server may use the directory. Damage is marked where
    it is, and the dump goes on behind it; the exit code is 1 then. A torn tail, what a crash leaves
    behind the last batch, is no damage.
    """
    from coterie.protocol.topic_names import OFFSETS_TOPIC

    if batches and group_ids:
        raise click.UsageError("--batches shows no records, so --group has nothing to choose from.")
    if to_offset is not None and to_offset < from_offset:
        raise click.UsageError(f"--to-offset {to_offset} is before --from-offset {from_offset}.")
    found = find_partitions(paths, partitions)
    if group_ids:
        found = [p for p in found if p.topic in (OFFSETS_TOPIC, "")] or found
    groups = frozenset(group.encode() for group in group_ids) if group_ids else None
    wanted = _Wanted(from_offset, to_offset, groups, values, batches, limit)
    names = {}
    for directory in {_parent(p.directory) for p in found}:
        names.update(topic_names(directory))
    printer = _Printer(wanted, names, as_json=as_json)
    total = sum(partition.size() for partition in found)
    is_long = total >= _BIG_LOG_BYTES and not sys.stdout.isatty()
    with byte_progress("Reading", total, wanted=is_long) as note_bytes:
        for partition in found:
            if not printer.full:
                _show(partition, wanted, printer, note_bytes)
    # Here, where a reader that has gone away is no traceback.
    sys.stdout.flush()
    if printer.damaged:
        places = "1 place is" if printer.damaged == 1 else f"{printer.damaged} places are"
        raise CommandFailed(
            f"{places} damaged.",
            "A server does not serve a damaged partition. Restore its directory from a copy,"
            " or move it away to go on without it.",
        )


def _parent(directory: str) -> str:
    import os

    return os.path.dirname(os.path.abspath(directory))


def _show(
    partition: "PartitionFiles",
    wanted: _Wanted,
    printer: _Printer,
    note_bytes: Callable[[int], None],
) -> None:
    """Print one partition, as far as it is wanted."""
    from coterie.cli.log_rows import batch_row, damage_row
    from coterie.cli.log_walk import Damage, Gone, walk_partition
    from coterie.protocol.topic_names import OFFSETS_TOPIC

    if wanted.values == "auto":
        is_offsets = partition.topic == OFFSETS_TOPIC or wanted.groups is not None
        wanted = wanted._replace(values="offsets" if is_offsets else "text")
    try:
        for found in walk_partition(partition, wanted.from_offset, note_bytes):
            if isinstance(found, Gone):
                note(f"{found.path} was removed meanwhile.")
            elif isinstance(found, Damage):
                printer.damage(damage_row(partition, found))
            elif wanted.to_offset is not None and found.header.base_offset > wanted.to_offset:
                return
            else:
                rows = (
                    iter([batch_row(partition, found)])
                    if wanted.batches
                    else _records(partition, found, wanted, printer)
                )
                for row in rows:
                    printer.entry(row)
                    if printer.full:
                        return
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(f"{partition.directory}: {error.strerror}.") from error


def _records(
    partition: "PartitionFiles", batch: "Batch", wanted: _Wanted, printer: _Printer
) -> "Iterator[Row]":
    """The records of a batch between the wanted offsets."""
    from coterie.cli.log_rows import damage_row, record_rows
    from coterie.cli.log_walk import Damage
    from coterie.protocol.errors import MalformedFrame

    try:
        for row in record_rows(partition, batch, wanted.values, wanted.groups):
            after = wanted.to_offset is not None and row["offset"] > wanted.to_offset
            if row["offset"] >= wanted.from_offset and not after:
                yield row
    except MalformedFrame as error:
        reason = f"the checksum fits, but not the records: {error}"
        printer.damage(damage_row(partition, Damage(batch.path, batch.position, 0, reason)))
