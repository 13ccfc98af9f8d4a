"""Compaction of a data directory that no server uses: selecting partitions and compacting them.

The cleanup policies and settings of topics are those that a server stored in its settings file. A
data directory of Kafka has no such file, so only `__consumer_offsets` is known to be compacted
there. A log is opened as a server opens it at its start: a torn tail is truncated, and damage makes
only its own partition fail.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from coterie.cli.errors import CommandFailed
from coterie.cli.output import Row, printable
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.config import Config
from coterie.server.config.sources import ConfigError
from coterie.server.config.topic_config import TopicConfig
from coterie.server.logs.log_configs import cleaner_config, log_config
from coterie.server.metadata.stored_settings import SETTINGS_FILE, StoredSettings, read_settings
from coterie.storage.cleanable import Cleanable, CleanerConfig, cleanable
from coterie.storage.cleaner import CleaningResult, clean
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, DirectoryLocked, LogFailed, StorageError
from coterie.storage.log import Log
from coterie.storage.meta_properties import META_FILE, read_meta
from coterie.storage.system_files import system_files

_MEGABYTE = 1_000_000


class Options(NamedTuple):
    """The options of the command; None means the value of the topic's setting."""

    include_active: bool
    dry_run: bool
    min_cleanable_ratio: float | None
    delete_retention_ms: int | None


class Partition(NamedTuple):
    """A partition to compact, with the settings of its topic."""

    topic: str
    partition: int
    config: TopicConfig

    @property
    def name(self) -> str:
        """The partition as Kafka names it."""
        return f"{self.topic}-{self.partition}"


@contextmanager
def locked_directory(path: str) -> Iterator[DataDirectory]:
    """Open and lock a data directory, and close it afterwards.

    Raises:
        CommandFailed: it is not a data directory, a server has locked it, or its own files can't be
            read.
    """
    filesystem = system_files()
    path = path.rstrip("/") or "/"
    try:
        meta = read_meta(filesystem, path) if os.path.isdir(path) else None
        if meta is None:
            raise CommandFailed(
                f"{printable(path)} is not a data directory: it has no {META_FILE}.",
                "Give the directory of `coterie serve --data-dir`, or of Kafka's log.dirs.",
            )
        node_id = int(meta.node_id or "")
        # The cluster id and directory id are only used to create a directory.
        directory = DataDirectory.open(
            filesystem, path, node_id=node_id, cluster_id="", directory_id="", durable=True
        )
    except DirectoryLocked as error:
        raise CommandFailed(
            f"{printable(path)} is in use by a running server.",
            "Stop the server first. A running `coterie serve` compacts by itself.",
        ) from error
    except ValueError as error:
        raise CommandFailed(f"{printable(path)}/{META_FILE} has no node id: {error}.") from error
    except StorageError as error:
        raise CommandFailed(f"{printable(str(error))}.") from error
    except OSError as error:
        raise CommandFailed(f"{printable(path)}: {error.strerror}.") from error
    failure: Exception | None = None
    try:
        yield directory
    finally:
        try:
            directory.close()
        except (OSError, StorageError) as error:
            failure = error
    if failure is not None:
        raise CommandFailed(f"{printable(path)} was not closed properly: {failure}.") from failure


def select_partitions(
    directory: DataDirectory, names: tuple[str, ...], *, force: bool
) -> list[Partition]:
    """Return the partitions to compact.

    Args:
        directory: where they are.
        names: the wanted partitions; without any, all whose policy includes compact.
        force: whether the named partitions may have another policy.

    Raises:
        CommandFailed: a named partition does not exist, or has another policy. Compaction would
            then remove records that newer records of the same key do not replace.
    """
    stored, config = _stored_settings(directory.path)
    partitions = [
        Partition(topic, number, TopicConfig(config, stored.overrides(topic, found.topic_id)))
        for topic, found in sorted(directory.topics.items())
        for number in sorted(found.partitions)
    ]
    if not names:
        return [each for each in partitions if _is_compacted(each)]
    by_name = {each.name: each for each in partitions}
    unknown = [printable(name) for name in names if name not in by_name]
    if unknown:
        path = printable(directory.path)
        raise CommandFailed(
            f"There is no partition {', '.join(unknown)} in {path}.",
            f"It has {len(partitions)} partitions; `coterie dump log {path}` shows them.",
        )
    selected = [by_name[name] for name in dict.fromkeys(names)]
    for each in selected:
        if not force and not _is_compacted(each):
            raise CommandFailed(
                f"The cleanup.policy of {each.topic} does not include compact. Compaction would"
                " remove all records except the newest of each key, and all without a key.",
                "Add --force if that is what you want.",
            )
    return selected


def compact(
    directory: DataDirectory,
    partition: Partition,
    options: Options,
    count_bytes: Callable[[int], None],
) -> Row:
    """Compact one partition and return its row; an error is in the row and is not raised.

    Args:
        directory: where the partition is.
        partition: what to compact.
        options: how to compact it.
        count_bytes: called after each step with the number of bytes that it read or wrote.
    """
    row: Row = {
        "topic": partition.topic,
        "partition": partition.partition,
        "state": "failed",
        "dirty_ratio": None,
        "dirty_bytes": None,
        "segments_before": None,
        "segments_after": None,
        "bytes_before": None,
        "bytes_after": None,
        "records_read": None,
        "records_kept": None,
        "tombstones_kept": None,
        "rounds": 0,
        "seconds": 0.0,
        "mb_per_s": None,
        "error": None,
    }
    try:
        _compact(directory, partition, options, row, count_bytes)
    except CorruptLog as error:
        row["error"] = f"{error.path}: damaged at byte {error.position}: {error.reason}"
    except LogFailed as error:
        row["error"] = f"the last step failed and is finished at the next start: {error.cause}"
    except OSError as error:
        row["error"] = f"nothing was changed: {error.strerror or error}"
    return row


def _compact(
    directory: DataDirectory,
    partition: Partition,
    options: Options,
    row: Row,
    count_bytes: Callable[[int], None],
) -> None:
    topic, number, settings = partition
    first_dirty = directory.cleaner_offset(topic, number)
    was_compacted = _is_compacted(partition) or first_dirty > 0
    name = f"{topic}-{number}"
    of_log = log_config(settings, name, was_compacted=was_compacted, durable=True)
    log = directory.open_log(topic, number, of_log)
    if options.include_active and not options.dry_run:
        # No server appends to this segment now; the next server continues in a new one.
        log.roll()
    config = _cleaner_config(settings, options)
    now_ms = time.time_ns() // 1_000_000
    found = cleanable(log, first_dirty, now_ms, config)
    if options.include_active and options.dry_run:
        found = _with_active_segment(found, log.segments[-1].size, config)
    row.update(
        dirty_ratio=round(found.dirty_ratio, 4),
        dirty_bytes=found.dirty_bytes,
        segments_before=len(log.segments),
        segments_after=len(log.segments),
        bytes_before=log.size_bytes,
        bytes_after=log.size_bytes,
    )
    if options.dry_run or not found.due:
        row["state"] = "due" if found.due else "not due"
        return
    log.config = log.config._replace(compacted=True)
    began = time.monotonic()
    bytes_read = 0
    for result in _rounds(directory, partition, log, now_ms, config, count_bytes):
        bytes_read += result.bytes_read
        row["rounds"] += 1
        for name in ("records_read", "records_kept", "tombstones_kept"):
            row[name] = (row[name] or 0) + getattr(result, name)
    seconds = time.monotonic() - began
    row.update(
        state="compacted",
        segments_after=len(log.segments),
        bytes_after=log.size_bytes,
        seconds=round(seconds, 3),
        mb_per_s=round(bytes_read / _MEGABYTE / seconds, 1) if seconds else None,
    )


def _with_active_segment(found: Cleanable, active_bytes: int, config: CleanerConfig) -> Cleanable:
    """Return what would be dirty if the active segment were closed, which a dry run does not do."""
    more = found._replace(dirty_bytes=found.dirty_bytes + active_bytes)
    is_due = more.dirty_bytes > 0 and more.dirty_ratio >= config.min_cleanable_ratio
    return more._replace(due=found.due or is_due)


def _rounds(
    directory: DataDirectory,
    partition: Partition,
    log: Log,
    now_ms: int,
    config: CleanerConfig,
    count_bytes: Callable[[int], None],
) -> Iterator[CleaningResult]:
    """Clean until nothing is dirty, and return the result of each cleaning.

    One cleaning is enough unless there are more keys than the key map of one cleaning can hold.
    """
    topic, number, _ = partition
    while True:
        first_dirty = directory.cleaner_offset(topic, number)
        result = clean(log, first_dirty, now_ms, config, count_bytes)
        if result is None:
            return
        assert not result.abandoned, "no server removes segments of a locked directory"
        directory.set_cleaner_offset(topic, number, result.first_dirty_offset)
        yield result
        if not result.map_full or result.first_dirty_offset == first_dirty:
            return


def _cleaner_config(settings: TopicConfig, options: Options) -> CleanerConfig:
    config = cleaner_config(settings)
    if options.min_cleanable_ratio is not None:
        config = config._replace(min_cleanable_ratio=options.min_cleanable_ratio)
    if options.delete_retention_ms is not None:
        config = config._replace(delete_retention_ms=options.delete_retention_ms)
    return config


def _is_compacted(partition: Partition) -> bool:
    return partition.config.compact or partition.topic == OFFSETS_TOPIC


def _stored_settings(path: str) -> tuple[StoredSettings, Config]:
    """Return the stored settings, and those of the broker.

    The broker's settings are the defaults, the environment, and what clients have altered.

    Raises:
        CommandFailed: the settings file can't be read, so the cleanup policies are not known.
    """
    place = f"{path}/{SETTINGS_FILE}"
    try:
        stored = read_settings(system_files(), path)
        config = Config.load((), os.environ)
        if stored is not None:
            config.alter(stored.broker, stored.cluster)
    except (ValueError, StorageError, ConfigError) as error:
        raise CommandFailed(
            f"{printable(place)} can't be read: {error}.",
            "This file says which topics are compacted. Restore it from a copy.",
        ) from error
    return StoredSettings() if stored is None else stored, config
