"""Which segment files a path stands for: one file, a partition's directory, a data directory.

Only names are looked at and nothing is opened for writing, so a directory that a running server
uses is as good as any. Files and directories that a server has given up (`.deleted`, `.cleaned`,
`.swap`, `-delete`) are no segments. The topic is told by the directory's name, as for Kafka.
"""

import base64
import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import CommandFailed
from coterie.cli.output import printable
from coterie.protocol.topic_names import METADATA_TOPIC

_SEGMENT_NAME = re.compile(r"(\d{20})\.log")
_PARTITION_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
_PARTITION_FILE = "partition.metadata"
# partition.metadata is two short lines.
_MAX_METADATA_BYTES = 1024


class SegmentFile(NamedTuple):
    """A segment's log file; `end_offset` is where the next one begins, None if it is the last."""

    path: str
    base_offset: int
    end_offset: int | None


class PartitionFiles(NamedTuple):
    """A partition's directory; `only` is the one file of it that was asked for.

    Topic and partition are empty and -1 where the directory's name is no partition's.
    """

    directory: str
    topic: str
    partition: int
    only: str | None = None

    @property
    def name(self) -> str:
        """As Kafka names it: topic-partition, or the directory's own name."""
        if self.partition < 0:
            return os.path.basename(self.directory)
        return f"{self.topic}-{self.partition}"

    def segments(self) -> list[SegmentFile]:
        """The segments that are there now, in order."""
        bases = sorted(
            int(match[1])
            for name in os.listdir(self.directory or ".")
            if (match := _SEGMENT_NAME.fullmatch(name))
        )
        ends: list[int | None] = [*bases[1:], None]
        return [
            SegmentFile(os.path.join(self.directory, f"{base:020d}.log"), base, end)
            for base, end in zip(bases, ends, strict=False)
        ]

    def size(self) -> int:
        """Bytes in the segments that are there now."""
        paths = [self.only] if self.only else [segment.path for segment in self.segments()]
        return sum(os.path.getsize(path) for path in paths if os.path.exists(path))


def find_partitions(paths: Iterable[str], wanted: Iterable[str]) -> list[PartitionFiles]:
    """The partitions that paths name, in order of topic and number.

    Args:
        paths: segment files, partition directories, data directories.
        wanted: TOPIC-N, with * and ? as in file names; none: all of them.

    Raises:
        CommandFailed: a path holds no log, or nothing is left of what is wanted.
    """
    patterns = tuple(wanted)
    found = [partition for path in paths for partition in _at(path, named=bool(patterns))]
    chosen = [
        partition
        for partition in found
        if not patterns or any(fnmatchcase(partition.name, pattern) for pattern in patterns)
    ]
    if not chosen:
        names = ", ".join(printable(pattern) for pattern in patterns)
        raise CommandFailed(
            f"No partition is called {names}.",
            f"There are {len(found)}, from {found[0].name} to {found[-1].name}.",
        )
    return chosen


def complete_partitions(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the partitions in the paths that the command line has so far."""
    # An option still without its value stops click: the paths are among what it did not take.
    paths = [argument for argument in context.args if not argument.startswith("-")]
    try:
        found = find_partitions(paths, ()) if paths else []
    except (click.ClickException, OSError):
        return []
    names = (partition.name for partition in found)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def topic_names(data_directory: str) -> dict[str, str]:
    """Topic ids, as Kafka prints them, to names, as far as a data directory's partitions tell."""
    names = {}
    for topic, _, path in _partition_directories(data_directory):
        try:
            with open(os.path.join(path, _PARTITION_FILE), encoding="utf-8") as file:
                text = file.read(_MAX_METADATA_BYTES)
        except (OSError, UnicodeDecodeError):
            continue
        match = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
        if match:
            names[match[1]] = topic
    return names


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka prints it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _at(path: str, *, named: bool) -> Iterator[PartitionFiles]:
    """The partitions at one path; `named`: also those that are only shown when asked for."""
    if not os.path.exists(path):
        raise CommandFailed(f"There is no {printable(path)}.")
    if not os.path.isdir(path):
        if not path.endswith(".log"):
            raise CommandFailed(
                f"{printable(path)} is no segment's .log file.",
                "A .log file, a partition's directory or a data directory can be dumped.",
            )
        yield _partition(os.path.dirname(path), only=path)
        return
    try:
        partition = _partition(path)
        if partition.segments():
            yield partition
            return
        inside = [
            PartitionFiles(directory, topic, number)
            for topic, number, directory in _partition_directories(path)
            if named or topic != METADATA_TOPIC
        ]
    except OSError as error:
        raise CommandFailed(f"{printable(path)} can't be read: {error.strerror}.") from error
    if not inside:
        raise CommandFailed(
            f"{printable(path)} holds no segments, and no directories of partitions.",
            "A data directory has one directory a partition, called TOPIC-N.",
        )
    yield from inside


def _partition(directory: str, only: str | None = None) -> PartitionFiles:
    match = _PARTITION_NAME.fullmatch(os.path.basename(os.path.abspath(directory)))
    if match is None:
        return PartitionFiles(directory, "", -1, only)
    return PartitionFiles(directory, match[1], int(match[2]), only)


def _partition_directories(path: str) -> list[tuple[str, int, str]]:
    """Topic, number and path of each partition's directory in a data directory."""
    found = []
    for name in os.listdir(path):
        match = _PARTITION_NAME.fullmatch(name)
        directory = os.path.join(path, name)
        if match and os.path.isdir(directory):
            found.append((match[1], int(match[2]), directory))
    return sorted(found)
