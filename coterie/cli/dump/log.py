"""`coterie dump log`: the records or batches in the files of a log, as text or as JSON lines.

Files are only read, in bounded memory, so a running server may use the directory. Damage is
reported where it is found, and the rest of the log is shown nevertheless.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.dump.log_files import (
    PartitionFiles,
    find_partitions,
    partition_option,
)
from coterie.cli.dump.log_rows import batch_row, damage_row, record_rows
from coterie.cli.dump.log_text import batch_line, damage_line, record_lines
from coterie.cli.dump.log_walk import Batch, Damage, RemovedSegment, walk_partition
from coterie.cli.errors import CommandFailed
from coterie.cli.output import (
    Line,
    Row,
    byte_progress,
    folded,
    in_colour,
    is_for_people,
    note,
    styled,
)
from coterie.cli.registry_option import registry_at, registry_option
from coterie.cli.values import COUNT, LONG_NATURAL
from coterie.client.names import counted
from coterie.pipeline.segments import topic_names
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from coterie.client.registry.address import RegistryAddress
    from coterie.client.registry.decoding import Registry

# A dump of this size into a file takes long enough for a progress bar.
_BIG_LOG_BYTES = 64 << 20
# The spaces before the rest of a line that does not fit into the terminal; offsets end before.
_INDENT = 14
# How the records of topics are decoded; those of others as text.
_VALUES_OF = {OFFSETS_TOPIC: "offsets", TRANSACTIONS_TOPIC: "transactions"}


class _Selection(NamedTuple):
    """What is shown, as the options say."""

    from_offset: int
    to_offset: int | None
    groups: frozenset[bytes] | None
    values: str
    batches: bool
    limit: int | None
    registry: "Registry | None" = None


@click.command("log")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@partition_option
@click.option(
    "--from-offset",
    type=LONG_NATURAL,
    metavar="N",
    default=0,
    help="First offset to show.  [default: the first in the log]",
)
@click.option(
    "--to-offset",
    type=LONG_NATURAL,
    metavar="N",
    help="Last offset to show.  [default: the last in the log]",
)
@click.option(
    "--group",
    "group_ids",
    multiple=True,
    metavar="GROUP",
    help="Show only this group's records of __consumer_offsets; repeatable.",
)
@click.option("--batches", is_flag=True, help="Show the headers of batches instead of records.")
@click.option(
    "--values",
    type=click.Choice(("auto", "offsets", "transactions", "text", "raw")),
    default="auto",
    show_default=True,
    help="How to decode keys and values: offsets as records of __consumer_offsets, transactions as"
    " those of __transaction_state, text as UTF-8 or else hexadecimal, raw not at all, auto by the"
    " name of the topic.",
)
@registry_option
@click.option("--limit", type=COUNT, metavar="N", help="Show at most N entries.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    *,
    paths: tuple[str, ...],
    partitions: tuple[str, ...],
    from_offset: int,
    to_offset: int | None,
    group_ids: tuple[str, ...],
    batches: bool,
    values: str,
    schema_registry: "RegistryAddress | None",
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the records or batches of a log.

    PATH is the .log file of a segment, the directory of a partition, or a data directory, of
    Coterie or of Kafka. Nothing is written or locked, so a running server may use the directory.

    Damage is reported where it is found, the dump continues after it, and the exit code is 1. A
    torn tail, which a crash leaves after the last batch, is reported but is not damage.
    """
    if batches and group_ids:
        raise click.UsageError("--group selects records, so it can't be used with --batches.")
    if to_offset is not None and to_offset < from_offset:
        raise click.UsageError(f"--to-offset {to_offset} is before --from-offset {from_offset}.")
    found = find_partitions(paths, partitions)
    if group_ids:
        found = [p for p in found if p.topic in (OFFSETS_TOPIC, "")] or found
    groups = frozenset(group.encode() for group in group_ids) if group_ids else None
    registry = registry_at(schema_registry)
    selection = _Selection(from_offset, to_offset, groups, values, batches, limit, registry)
    names: dict[str, str] = {}
    for directory in {os.path.dirname(os.path.abspath(p.directory)) for p in found}:
        names |= topic_names(directory)
    printer = _Printer(selection, names, as_json=as_json)
    total_bytes = sum(partition.size_bytes() for partition in found)
    is_long = total_bytes >= _BIG_LOG_BYTES and not sys.stdout.isatty()
    with byte_progress("Reading", total_bytes, shown=is_long) as count_bytes:
        for partition in found:
            if not printer.is_full:
                _print_partition(partition, selection, printer, count_bytes)
    # Flushed here and not at exit, where a broken pipe would print a traceback.
    sys.stdout.flush()
    if printer.damaged:
        raise CommandFailed(
            f"{counted(printer.damaged, 'place', 'is', 'are')} damaged.",
            "A server does not serve a damaged partition. Restore the partition's directory from a"
            " copy, or move it away to continue without its records.",
        )


class _Printer:
    """Prints rows, and counts the rows and the damaged places."""

    def __init__(self, selection: _Selection, names: dict[str, str], *, as_json: bool) -> None:
        self.shown = 0
        self.damaged = 0
        self._selection = selection
        self._topic_names = names
        self._as_json = as_json
        self._colour = in_colour()
        # The width of the terminal; 0 if there is none, because lines in a pipe are never folded.
        self._columns = get_terminal_size().columns if is_for_people() else 0
        self._current_file = ""

    @property
    def is_full(self) -> bool:
        """Whether --limit is reached."""
        return self._selection.limit is not None and self.shown >= self._selection.limit

    def print_entry(self, row: Row) -> None:
        """Print a batch or a record."""
        self.shown += 1
        if (row.get("error") or "").startswith("malformed"):
            self.damaged += 1
        if self._as_json:
            self._print_json(row)
        elif row["kind"] == "batch":
            self._print_lines(row, [batch_line(row)])
        else:
            self._print_lines(row, record_lines(row, self._topic_names))

    def print_damage(self, row: Row) -> None:
        """Print damage or a torn tail."""
        self.damaged += row["kind"] == "damage"
        if self._as_json:
            self._print_json(row)
        else:
            self._print_lines(row, [damage_line(row)])

    def _print_json(self, row: Row) -> None:
        sys.stdout.write(json.dumps(row) + "\n")

    def _print_lines(self, row: Row, lines: Iterable[Line]) -> None:
        """Print lines, after the name of their file if it is not that of the lines before."""
        if row["file"] != self._current_file:
            self._write([("\n" if self._current_file else "", ""), (row["file"], "bold")])
            self._current_file = row["file"]
        for line in lines:
            for part in folded(line, self._columns, _INDENT) if self._columns else (line,):
                self._write(part)

    def _write(self, line: Line) -> None:
        # Not by click.echo, which flushes every line: a dump has millions of them.
        if self._colour:
            text = "".join(styled(part, style) for part, style in line)
        else:
            text = "".join(part for part, _ in line)
        sys.stdout.write(text.rstrip(" ") + "\n")


def _print_partition(
    partition: PartitionFiles,
    selection: _Selection,
    printer: _Printer,
    count_bytes: Callable[[int], None],
) -> None:
    """Print what is selected of one partition."""
    if selection.values == "auto":
        topic = OFFSETS_TOPIC if selection.groups is not None else partition.topic
        selection = selection._replace(values=_VALUES_OF.get(topic, "text"))
    try:
        for found in walk_partition(partition, selection.from_offset, count_bytes):
            if isinstance(found, RemovedSegment):
                note(f"{found.path} was removed while it was about to be read.")
            elif isinstance(found, Damage):
                printer.print_damage(damage_row(partition, found))
            elif selection.to_offset is not None and found.header.base_offset > selection.to_offset:
                return
            else:
                rows: Iterator[Row] = (
                    iter([batch_row(partition, found)])
                    if selection.batches
                    else _records(partition, found, selection, printer)
                )
                for row in rows:
                    printer.print_entry(row)
                    if printer.is_full:
                        return
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(f"{partition.directory}: {error.strerror}.") from error


def _records(
    partition: PartitionFiles, batch: Batch, selection: _Selection, printer: _Printer
) -> Iterator[Row]:
    """Return the rows of the selected records of a batch; print damage inside the batch."""
    try:
        values, groups, registry = selection.values, selection.groups, selection.registry
        for row in record_rows(partition, batch, values, groups, registry):
            is_after = selection.to_offset is not None and row["offset"] > selection.to_offset
            if row["offset"] >= selection.from_offset and not is_after:
                yield row
    except MalformedFrame as error:
        reason = f"the checksum is right, but the records can't be decoded: {error}"
        printer.print_damage(damage_row(partition, Damage(batch.path, batch.position, 0, reason)))
