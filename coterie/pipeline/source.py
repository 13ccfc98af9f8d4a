"""`coterie_log`: a coordinator's log, ours or Kafka's, as a Spark format for batches and streams.

    spark.dataSource.register(CoterieLog)
    spark.read.format("coterie_log").option("view", "groups").load("/var/lib/kafka")
    spark.readStream.format("coterie_log").load("/var/lib/kafka")

The options are described in `options.py`, the columns of each view in `schemas.py`. Rows are passed
to Spark as Arrow batches. The offset of a stream is the next log offset of each log partition, so a
checkpoint remains valid when the log is compacted [pipeline/segment-files].
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie.pipeline.codec.damage import TORN
from coterie.pipeline.codec.views import CHECKED_BY, quarantined
from coterie.pipeline.options import LogOptions, parse_options
from coterie.pipeline.pruning import pruned
from coterie.pipeline.ranges import (
    Hint,
    LogRange,
    RangeStep,
    log_end,
    packed,
    plan_ranges,
    read_range,
    whole_end,
)
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.segments import find_partitions, list_segments
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC

FORMAT = "coterie_log"

# Offsets of a stream by log partition. Spark stores them as JSON, whose keys are text.
Offsets = dict[str, int]


class DamagedLog(Exception):  # noqa: N818 - says what was found
    """The log is damaged, and the option `quarantine` is `fail`."""


class Split(InputPartition):
    """The ranges that one task reads, of one or several partitions."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        super().__init__(tuple(ranges))

    @property
    def ranges(self) -> tuple[LogRange, ...]:
        """The ranges, in the order in which they are read."""
        ranges: tuple[LogRange, ...] = self.value
        return ranges


class CoterieLog(DataSource):
    """The format `coterie_log`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the view."""
        return spark_schema(parse_options(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return a reader of the log as it is now."""
        return LogReader(parse_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return a reader of the log and of everything that is appended to it."""
        return LogStreamReader(parse_options(self.options))


class LogReader(DataSourceReader):
    """A reader of every partition of the topic, one split at a time."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Plan the splits, the largest first."""
        options = self.options
        directories = _directories(options)
        total = sum(
            segment.size_bytes for path in directories.values() for segment in list_segments(path)
        )
        target = options.split_target(total)
        ranges = [
            each
            for number, path in directories.items()
            for each in plan_ranges(path, number, target)
        ]
        return [Split(each) for each in packed(ranges, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a split."""
        return _rows(partition, self.options)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that follows a log. One instance exists beside the driver during the whole query."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        # The positions of offsets, by partition and offset.
        self._hints: dict[tuple[int, int], Hint] = {}
        # The bytes between two offsets of a partition, as far as they were counted.
        self._sizes: dict[tuple[int, int, int], int] = {}
        self._target: Offsets | None = None
        self._found: dict[int, str] = {}
        self._selected: dict[int, str] = {}

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return where each partition's log begins."""
        return {str(number): _log_start(path) for number, path in self._directories().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option maxBytesPerTrigger."""
        return ReadMaxBytes(self.options.trigger_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where the log ends now; this run reads nothing behind it."""
        self._target = {str(number): log_end(path) for number, path in self._directories().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Return the end of the whole batches, or of as many of them as the limit allows.

        A new partition begins at its first offset. A partition that was removed keeps its offset.
        """
        directories = self._directories()
        ends = dict(start)
        for number, path in directories.items():
            if str(number) not in ends:
                ends[str(number)] = _log_start(path)
        begins = dict(ends)
        if isinstance(limit, ReadMaxBytes):
            left: int | None = limit.max_bytes
        else:
            left = None
        hints = self._hints
        self._hints = {}
        counted = dict.fromkeys(directories, 0)
        pending = list(directories)
        while pending and (left is None or left > 0):
            share = None if left is None else max(left // len(pending), 1)
            unfinished = []
            for number in pending:
                size_bytes = self._advance(number, directories[number], ends, share, hints)
                counted[number] += size_bytes
                if left is not None and share is not None:
                    left -= size_bytes
                    if size_bytes >= share:
                        unfinished.append(number)
            pending = unfinished
        for number in directories:
            begin = begins[str(number)]
            if (number, begin) in hints:
                self._hints[number, begin] = hints[number, begin]
        self._sizes = {
            (number, begins[str(number)], ends[str(number)]): counted[number]
            for number in directories
        }
        return ends

    def _advance(
        self,
        number: int,
        directory: str,
        ends: Offsets,
        max_bytes: int | None,
        hints: dict[tuple[int, int], Hint],
    ) -> int:
        """Advance one partition's end, and return the bytes between the old and the new end."""
        begin = ends[str(number)]
        limit = self._target.get(str(number), begin) if self._target is not None else None
        if limit is not None and begin >= limit:
            return 0
        hint = self._hints.get((number, begin)) or hints.get((number, begin))
        found = whole_end(directory, begin, max_bytes, hint)
        if limit is not None and found.offset >= limit:
            ends[str(number)] = limit
            return 0
        ends[str(number)] = found.offset
        if found.hint is not None:
            self._hints[number, found.offset] = found.hint
        return found.size_bytes

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Plan the splits between two offsets."""
        ranges: list[LogRange] = []
        directories = self._directories()
        target = self.options.split_target(self.options.trigger_bytes)
        for name, end_offset in end.items():
            number = int(name)
            directory = directories.get(number)
            if directory is None:
                continue
            begin = start.get(name, 0)
            if begin >= end_offset:
                continue
            size_bytes = self._sizes.get((number, begin, end_offset))
            if size_bytes is not None and size_bytes <= target:
                hint = self._hints.get((number, begin))
                ranges.append(LogRange(directory, number, begin, end_offset, size_bytes, hint))
            else:
                ranges += plan_ranges(directory, number, target, begin, end_offset)
        return [Split(each) for each in packed(ranges, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a split."""
        return _rows(partition, self.options)

    def _directories(self) -> dict[int, str]:
        found = find_partitions(self.options.path, self.options.topic)
        if found != self._found:
            # Selecting partitions reads samples of them, so this is not repeated for every
            # micro-batch.
            self._found, self._selected = found, _directories(self.options)
        return self._selected


def _directories(options: LogOptions) -> dict[int, str]:
    """Return the partitions to read, with their directories."""
    found = find_partitions(options.path, options.topic)
    # A group has share partitions in many partitions of their topic.
    group = None if options.topic == SHARE_GROUPS_TOPIC else options.group
    return pruned(found, options.log_partitions, group, options.partition_count)


def _log_start(directory: str) -> int:
    segments = list_segments(directory)
    return segments[0].base_offset if segments else 0


def _rows(partition: InputPartition, options: LogOptions) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split as Arrow batches."""
    # If there are no splits, Spark creates a partition of its own, which has no value.
    ranges: Sequence[LogRange] = partition.value or ()
    view = options.view
    if view == "quarantine":
        view = CHECKED_BY.get(options.topic, "raw")
    names = options.schema.names
    for log_range in ranges:
        for step in read_range(log_range, view, crc=options.crc):
            if options.fail_on_damage:
                _refuse_damage(log_range, step)
            rows = step.rows
            if options.view == "quarantine":
                rows = quarantined(step.source, step.damages)
            if rows.num_rows:
                yield rows if options.columns is None else rows.select(names)


def _refuse_damage(log_range: LogRange, step: RangeStep) -> None:
    """Raise an error for damage, except for the unfinished end of a log that is being written."""
    for found in step.damages:
        if found.reason == TORN:
            newest: Any = list_segments(log_range.directory)[-1:]
            if newest and os.path.samefile(newest[0].path, step.source.file):
                continue
        raise DamagedLog(
            f"{step.source.file}, byte {found.position}: {found.reason}: {found.detail}; with"
            " quarantine=skip the rest is read, and the view quarantine shows the damage"
        )
