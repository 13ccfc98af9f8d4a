"""`coterie dump producers`: producers and aborted transactions in the files of partitions.

A snapshot (`OFFSET.snapshot`) has the producers of a partition before an offset, a transaction
index (`OFFSET.txnindex`) the aborted transactions of a segment. Both have Kafka's format. Files are
only read, so a running server may use the directory.
"""

import os
from collections.abc import Iterator

import click

from coterie.cli.dump.log_files import (
    PartitionFiles,
    find_partitions,
    partition_at,
    partition_option,
)
from coterie.cli.dump.log_text import time_text
from coterie.cli.errors import CommandFailed
from coterie.cli.output import Line, Row, print_json, print_line, printable
from coterie.client.names import counted
from coterie.storage.aborted_transactions import ENTRY_BYTES, decode_entries
from coterie.storage.producer_snapshots import decode_snapshot
from coterie.storage.producer_state import ENTRY, ProducerEntry
from coterie.storage.segment_files import parse_segment_file

_SNAPSHOT, _INDEX = ".snapshot", ".txnindex"


@click.command("producers")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@partition_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, paths: tuple[str, ...], partitions: tuple[str, ...], as_json: bool) -> None:
    """Print snapshots of producers and indexes of aborted transactions.

    PATH is a .snapshot or .txnindex file, the directory of a partition, or a data directory, of
    Coterie or of Kafka. Nothing is written or locked, so a running server may use the directory.
    """
    damaged = 0
    for partition, path in _files(paths, partitions):
        if not as_json:
            print_line([(path, "bold")])
        for row in _rows(partition, path):
            damaged += row["kind"] == "damage"
            if as_json:
                print_json(row, one_line=True)
            else:
                print_line(_line(row))
    if damaged:
        raise CommandFailed(
            f"{counted(damaged, 'file', 'is', 'are')} damaged.",
            "A server makes the files of the last segment anew from the log; a damaged .txnindex of"
            " an older segment has to be restored from a copy, or removed.",
        )


def _files(
    paths: tuple[str, ...], patterns: tuple[str, ...]
) -> Iterator[tuple[PartitionFiles, str]]:
    """Return the files at some paths, with their partitions."""
    for path in paths:
        if path.endswith((_SNAPSHOT, _INDEX)) and os.path.isfile(path):
            yield partition_at(os.path.dirname(path), only=path), path
            continue
        for partition in find_partitions([path], patterns):
            try:
                names = sorted(os.listdir(partition.directory))
            except OSError as error:
                raise CommandFailed(
                    f"{printable(partition.directory)} can't be read: {error.strerror}."
                ) from error
            for name in names:
                if name.endswith((_SNAPSHOT, _INDEX)):
                    yield partition, os.path.join(partition.directory, name)


def _rows(partition: PartitionFiles, path: str) -> Iterator[Row]:
    """Return the entries of a file, and what is wrong with it."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        # A running server has removed it.
        return
    except OSError as error:
        raise CommandFailed(f"{printable(path)} can't be read: {error.strerror}.") from error
    place = {
        "topic": partition.topic or None,
        "partition": partition.partition if partition.partition >= 0 else None,
        "file": path,
    }
    if path.endswith(_SNAPSHOT):
        yield from _producers(data, place)
    else:
        yield from _aborted(data, place)


def _producers(data: bytes, place: Row) -> Iterator[Row]:
    entries = decode_snapshot(data)
    if entries is None:
        reason = "its version, its length or its checksum is wrong"
        yield {"kind": "damage", **place, "position": 0, "reason": reason}
        return
    for fields in ENTRY.iter_unpack(entries):
        yield {"kind": "producer", **place, **ProducerEntry(*fields)._asdict()}


def _aborted(data: bytes, place: Row) -> Iterator[Row]:
    name = os.path.basename(place["file"])
    file = parse_segment_file(name)
    entries, reason = decode_entries(data, 0 if file is None else file.base_offset)
    for entry in entries:
        yield {"kind": "aborted_transaction", **place, **entry._asdict()}
    if reason:
        position = len(entries) * ENTRY_BYTES
        yield {"kind": "damage", **place, "position": position, "reason": reason}


def _line(row: Row) -> Line:
    if row["kind"] == "damage":
        return [(f"  byte {row['position']}: DAMAGED: {row['reason']}", "bright_red")]
    if row["kind"] == "aborted_transaction":
        return [
            (f"  producer {row['producer_id']}", "cyan"),
            (f"  aborted from {row['first_offset']} to {row['last_offset']}", ""),
            (f"  last stable offset {row['last_stable_offset']}", ""),
        ]
    line: list[tuple[str, str]] = [
        (f"  producer {row['producer_id']}/{row['epoch']}", "cyan"),
        (f"  {time_text(row['timestamp_ms'])}", "bright_black"),
    ]
    if row["last_offset"] >= 0:
        sequence, last_offset = row["last_sequence"], row["last_offset"]
        records = counted(row["offset_delta"] + 1, "record")
        line.append((f"  {records} up to offset {last_offset}, sequence {sequence}", ""))
    if row["coordinator_epoch"] >= 0:
        line.append((f"  coordinator epoch {row['coordinator_epoch']}", ""))
    if row["current_txn_first_offset"] >= 0:
        line.append((f"  open transaction from {row['current_txn_first_offset']}", "yellow"))
    return line
