"""The segment files that a path names: one file, a partition's directory, or a data directory.

Directories are only listed and files only read, so a running server may use the directory. Files
and directories that a server has discarded (`.deleted`, `.cleaned`, `.swap`, `-delete`) are left
out. The topic is known from the name of the directory, as in Kafka.
"""

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from coterie.cli.errors import CommandFailed
from coterie.cli.output import printable
from coterie.protocol.topic_names import METADATA_TOPIC
from coterie.storage.partition_directories import partition_of
from coterie.storage.segment_files import log_base_offsets, segment_stem


class SegmentFile(NamedTuple):
    """A segment's log file.

    Attributes:
        path: the file.
        base_offset: the first offset that it can hold.
        end_offset: the base offset of the next segment; None for the last segment.
    """

    path: str
    base_offset: int
    end_offset: int | None


class PartitionFiles(NamedTuple):
    """A partition's directory.

    Attributes:
        directory: the directory.
        topic, partition: "" and -1 if its name is not that of a partition.
        only: the only file to read, if the user named a file and not a directory.
    """

    directory: str
    topic: str
    partition: int
    only: str | None = None

    @property
    def name(self) -> str:
        """The partition as Kafka names it, topic-partition, or else the directory's own name."""
        if self.partition < 0:
            return os.path.basename(self.directory)
        return f"{self.topic}-{self.partition}"

    def segments(self) -> list[SegmentFile]:
        """Return the segments that exist now, in order."""
        bases = log_base_offsets(os.listdir(self.directory or "."))
        ends: list[int | None] = [*bases[1:], None]
        return [
            SegmentFile(os.path.join(self.directory, f"{segment_stem(base)}.log"), base, end)
            for base, end in zip(bases, ends, strict=False)
        ]

    def size_bytes(self) -> int:
        """Return the size of the segments that exist now."""
        paths = [self.only] if self.only else [segment.path for segment in self.segments()]
        return sum(os.path.getsize(path) for path in paths if os.path.exists(path))


def find_partitions(paths: Iterable[str], patterns: Iterable[str]) -> list[PartitionFiles]:
    """Return the partitions at some paths, in order of topic and number.

    Args:
        paths: segment files, partition directories, data directories.
        patterns: TOPIC-N with * and ? as in file names; without any, all partitions.

    Raises:
        CommandFailed: a path has no log, or no partition matches.
    """
    patterns = tuple(patterns)
    found = [partition for path in paths for partition in _at(path, with_metadata=bool(patterns))]
    chosen = [
        partition
        for partition in found
        if not patterns or any(fnmatchcase(partition.name, pattern) for pattern in patterns)
    ]
    if not chosen:
        names = ", ".join(printable(pattern) for pattern in patterns)
        raise CommandFailed(
            f"There is no partition {names}.",
            f"The {len(found)} partitions here are {found[0].name} to {found[-1].name}.",
        )
    return chosen


def complete_partitions(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of the partitions at the paths that are on the command line."""
    # click stops at an option without a value, so the paths are still among its unparsed arguments.
    paths = [argument for argument in context.args if not argument.startswith("-")]
    try:
        found = find_partitions(paths, ()) if paths else []
    except (click.ClickException, OSError):
        return []
    names = (partition.name for partition in found)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


partition_option = click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="TOPIC-N",
    shell_complete=complete_partitions,
    help="Show only this partition of a data directory; * and ? are wildcards; repeatable.",
)


def _at(path: str, *, with_metadata: bool) -> Iterator[PartitionFiles]:
    """Return the partitions at one path.

    Args:
        path: a segment file, a partition directory or a data directory.
        with_metadata: whether a data directory's __cluster_metadata, which is not an ordinary log,
            is included.
    """
    if not os.path.exists(path):
        raise CommandFailed(f"{printable(path)} does not exist.")
    if not os.path.isdir(path):
        if not path.endswith(".log"):
            raise CommandFailed(
                f"{printable(path)} is not the .log file of a segment.",
                "Give a .log file, a partition's directory or a data directory.",
            )
        yield partition_at(os.path.dirname(path), only=path)
        return
    try:
        partition = partition_at(path)
        if partition.segments():
            yield partition
            return
        inside = [
            partition
            for partition in _partition_directories(path)
            if with_metadata or partition.topic != METADATA_TOPIC
        ]
    except OSError as error:
        raise CommandFailed(f"{printable(path)} can't be read: {error.strerror}.") from error
    if not inside:
        raise CommandFailed(
            f"{printable(path)} contains neither segments nor partition directories.",
            "A data directory has a directory for each partition, called TOPIC-N.",
        )
    yield from inside


def partition_at(directory: str, only: str | None = None) -> PartitionFiles:
    """Return the partition that a directory is, by its name; `only` is the one file to read."""
    topic, number = partition_of(os.path.basename(os.path.abspath(directory))) or ("", -1)
    return PartitionFiles(directory, topic, number, only)


def _partition_directories(path: str) -> list[PartitionFiles]:
    """Return the partition directories in a data directory, in order of topic and number."""
    partitions = [
        partition_at(directory)
        for name in os.listdir(path)
        if partition_of(name) and os.path.isdir(directory := os.path.join(path, name))
    ]
    return sorted(partitions, key=lambda each: (each.topic, each.partition))
