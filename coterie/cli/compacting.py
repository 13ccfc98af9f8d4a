"""A data directory held for compaction without a server: which partitions, how, what came of it.

The policies and settings of topics are those that a server stored in its settings file; a directory
of Kafka's has none, and there only `__consumer_offsets` is known to be compacted. Opening a log
here is what a server does at its start: a torn tail is cut, and damage is a partition that fails by
itself.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from coterie.cli.broker import CommandFailed
from coterie.cli.output import Row, printable
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.config import Config, ConfigError, TopicConfig
from coterie.server.logs.stored_settings import SETTINGS_FILE
from coterie.storage.checkpoints import read_file
from coterie.storage.cleaner import Cleanable, CleanerConfig, Cleaning, CleaningResult, cleanable
from coterie.storage.directory import META_FILE, DataDirectory
from coterie.storage.errors import CorruptLog, DirectoryLocked, LogFailed, StorageError
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log, LogConfig
from coterie.storage.properties import read_properties

_MEGABYTE = 1_000_000


class Wanted(NamedTuple):
    """What the command line asks for; None: as the topic's settings say."""

    include_active: bool
    dry_run: bool
    min_cleanable_ratio: float | None
    delete_retention_ms: int | None


class Target(NamedTuple):
    """A partition to be compacted, and its topic's settings."""

    topic: str
    partition: int
    config: TopicConfig

    @property
    def name(self) -> str:
        """As Kafka names it."""
        return f"{self.topic}-{self.partition}"


@contextmanager
def held_directory(path: str) -> Iterator[DataDirectory]:
    """A data directory, locked while it is in use here.

    Raises:
        CommandFailed: it is none, somebody else has it, or its own files can't be read.
    """
    filesystem = OsFileSystem()
    path = path.rstrip("/") or "/"
    try:
        text = read_file(filesystem, f"{path}/{META_FILE}") if os.path.isdir(path) else None
        if text is None:
            raise CommandFailed(
                f"{printable(path)} is no data directory: there is no {META_FILE} in it.",
                "Name the directory that `coterie serve --data-dir` uses, or Kafka's log.dirs.",
            )
        meta = read_properties(text)
        node_id = int(meta.get("node.id", meta.get("broker.id", "")))
        # Ids are only needed for a new directory, which this is not.
        directory = DataDirectory.open(
            filesystem, path, node_id=node_id, cluster_id="", directory_id="", durable=True
        )
    except DirectoryLocked as error:
        raise CommandFailed(
            f"{printable(path)} is in use by a running server.",
            "Stop it first. A running `coterie serve` compacts by itself.",
        ) from error
    except ValueError as error:
        raise CommandFailed(f"{printable(path)}/{META_FILE} names no node: {error}.") from error
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
        raise CommandFailed(f"{printable(path)} was not closed in order: {failure}.") from failure


def chosen_targets(
    directory: DataDirectory, names: tuple[str, ...], *, force: bool
) -> list[Target]:
    """The partitions with a compact policy; or those named, which must have one or `force`.

    Raises:
        CommandFailed: a name is no partition here, or one whose old records are not superseded by
            newer ones of the same key.
    """
    overrides, config = _stored_settings(directory.path)
    targets = [
        Target(topic, partition, TopicConfig(config, overrides.get(topic, {})))
        for topic, found in sorted(directory.topics.items())
        for partition in sorted(found.partitions)
    ]
    if not names:
        return [target for target in targets if _is_compacted(target)]
    by_name = {target.name: target for target in targets}
    unknown = [printable(name) for name in names if name not in by_name]
    if unknown:
        raise CommandFailed(
            f"There is no partition {', '.join(unknown)} in {printable(directory.path)}.",
            f"There are {len(targets)}; `coterie dump log {printable(directory.path)}` shows them.",
        )
    chosen = [by_name[name] for name in dict.fromkeys(names)]
    for target in chosen:
        if not force and not _is_compacted(target):
            raise CommandFailed(
                f"The cleanup.policy of {target.topic} is not compact: compaction would remove all"
                " records but the newest of each key, and those without a key.",
                "Add --force if that is what you want.",
            )
    return chosen


def compact(
    directory: DataDirectory, target: Target, wanted: Wanted, note_bytes: Callable[[int], None]
) -> Row:
    """Compact one partition; what it was and what it is, or why it was left alone."""
    row: Row = {
        "topic": target.topic,
        "partition": target.partition,
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
        _compact(directory, target, wanted, row, note_bytes)
    except CorruptLog as error:
        row["error"] = f"{error.path}: damaged at byte {error.position}: {error.reason}"
    except LogFailed as error:
        row["error"] = f"stopped in the last step, which the next start finishes: {error.cause}"
    except OSError as error:
        row["error"] = f"nothing was changed: {error.strerror or error}"
    return row


def _compact(
    directory: DataDirectory,
    target: Target,
    wanted: Wanted,
    row: Row,
    note_bytes: Callable[[int], None],
) -> None:
    topic, partition, settings = target
    first_dirty = directory.cleaner_offset(topic, partition)
    log_config = LogConfig(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        index_interval_bytes=settings.index_interval_bytes,
        compacted=_is_compacted(target) or first_dirty > 0,
        flush=True,
    )
    log = directory.open_log(topic, partition, log_config)
    if wanted.include_active and not wanted.dry_run:
        # No server appends to it now, so it may end here; a server goes on in the next segment.
        log.roll()
    config = _cleaner_config(settings, wanted)
    now_ms = time.time_ns() // 1_000_000
    found = cleanable(log, first_dirty, now_ms, config)
    if wanted.include_active and wanted.dry_run:
        found = _with_active(found, log.segments[-1].size, config)
    row.update(
        dirty_ratio=round(found.dirty_ratio, 4),
        dirty_bytes=found.dirty_bytes,
        segments_before=len(log.segments),
        segments_after=len(log.segments),
        bytes_before=log.size_bytes,
        bytes_after=log.size_bytes,
    )
    if wanted.dry_run or not found.due:
        row["state"] = "due" if found.due else "not due"
        return
    log.config = log_config._replace(compacted=True)
    began = time.monotonic()
    bytes_read = 0
    for result in _rounds(directory, target, log, found, now_ms, config, note_bytes):
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


def _with_active(found: Cleanable, active_bytes: int, config: CleanerConfig) -> Cleanable:
    """What would be dirty if the active segment were ended; a dry run does not end it."""
    more = found._replace(dirty_bytes=found.dirty_bytes + active_bytes)
    is_due = more.dirty_bytes > 0 and more.dirty_ratio >= config.min_cleanable_ratio
    return more._replace(due=found.due or is_due)


def _rounds(
    directory: DataDirectory,
    target: Target,
    log: Log,
    found: Cleanable,
    now_ms: int,
    config: CleanerConfig,
    note_bytes: Callable[[int], None],
) -> Iterator[CleaningResult]:
    """Cleanings until nothing is dirty: one, or more where the key map is too small for all."""
    while True:
        cleaning = Cleaning(log, found, now_ms, config)
        try:
            for step in cleaning:
                if step.pending is not None:
                    try:
                        step.pending.run()
                    except OSError as error:
                        cleaning.fail(error)
                        raise
                note_bytes(step.bytes_done)
        finally:
            cleaning.abandon()
        result = cleaning.result
        assert not result.abandoned, "nobody else removes segments of a directory that we hold"
        directory.set_cleaner_offset(target.topic, target.partition, result.first_dirty_offset)
        yield result
        if not result.map_full or result.first_dirty_offset == found.first_dirty_offset:
            return
        found = cleanable(log, result.first_dirty_offset, now_ms, config)


def _cleaner_config(settings: TopicConfig, wanted: Wanted) -> CleanerConfig:
    ratio, retention_ms = wanted.min_cleanable_ratio, wanted.delete_retention_ms
    return CleanerConfig(
        delete_retention_ms=settings.delete_retention_ms if retention_ms is None else retention_ms,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms,
        min_cleanable_ratio=settings.min_cleanable_ratio if ratio is None else ratio,
        segment_bytes=settings.segment_bytes,
    )


def _is_compacted(target: Target) -> bool:
    return target.config.compact or target.topic == OFFSETS_TOPIC


def _stored_settings(path: str) -> tuple[Mapping[str, Mapping[str, str]], Config]:
    """The settings of topics, and the broker's: defaults, environment, what clients altered.

    Raises:
        CommandFailed: the file of them can't be read; without it policies would be guessed.
    """
    place = f"{path}/{SETTINGS_FILE}"
    try:
        text = read_file(OsFileSystem(), place)
        stored: dict[str, Any] = {} if text is None else json.loads(text)
        config = Config.load((), os.environ)
        config.alter(stored.get("broker", {}))
    except (ValueError, StorageError, ConfigError) as error:
        raise CommandFailed(
            f"{printable(place)} can't be read: {error}.",
            "It says which topics are compacted. Restore it from a copy.",
        ) from error
    return stored.get("topics", {}), config
