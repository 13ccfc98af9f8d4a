"""Follow one topic of a data directory: a structured stream, appended micro-batch by micro-batch.

A micro-batch only signals that there is something new. This module reads what is new, to the end of
the log at that time, and writes it without Spark: reading and writing a few records takes 20 ms,
while a job of Spark takes 300 ms, and one or two seconds during a build. One core processes a few
hundred thousand records per second like this. Only if there is very much to read, Spark writes the
micro-batches on all cores.

Both ways begin at the offsets in the manifest and commit the new offsets together with their rows.
What is read here includes at least the micro-batch, and rows that Spark then passes again are
skipped.
"""

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from coterie.pipeline.codec.views import CHECKED_BY, quarantined
from coterie.pipeline.jobs.follow_source import followed
from coterie.pipeline.jobs.live_store import Append, LiveStore
from coterie.pipeline.kafka_input import TABLE_OF
from coterie.pipeline.ranges import (
    Hint,
    LogRange,
    RangeStep,
    plan_ranges,
    read_range,
    whole_end,
)
from coterie.pipeline.segments import (
    NoSuchLog,
    find_partitions,
    list_segments,
    segment_of,
)
from coterie.pipeline.tables import TABLES, with_input

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# If there is more log than this, Spark writes the micro-batches. One core reads and writes it in
# 5 s. Spark needs three times as much processor time, which pays off with many cores only.
MUCH_BYTES = 256 << 20
# The log that is committed at a time. It is in memory, decoded, while it is written.
_SLICE_BYTES = 16 << 20

_QUARANTINE = "quarantine"


class Tail:
    """One topic of one data directory as a stream, which starts when the topic exists."""

    def __init__(
        self,
        store: LiveStore,
        append: Append,
        place: tuple[str, str, str],
        lock: threading.Lock,
        *,
        crc: bool = True,
        much_bytes: int = MUCH_BYTES,
    ) -> None:
        """Prepare to follow; `check` starts the stream.

        Args:
            store: the output directory.
            append: commits written parts.
            place: the input, its data directory, the topic.
            lock: a lock that is held while a micro-batch is appended. Several directories of an
                input can have the same partition; they share a lock, so that each record is
                appended once.
            crc: whether to check checksums.
            much_bytes: if there is more log than this, Spark writes the micro-batches.
        """
        self._store = store
        self._append = append
        self._source, self._path, self._topic = place
        self._lock = lock
        self._crc = crc
        self._much_bytes = much_bytes
        self._query: StreamingQuery | None = None
        self._is_stopping = False
        # By log partition an offset and the position of its batch.
        self._hints: dict[int, tuple[int, Hint]] = {}

    def check(self, spark: SparkSession, checkpoint: str, trigger_ms: int) -> None:
        """Start the stream if its topic exists by now, and raise the error of a failed stream.

        Args:
            spark: the session.
            checkpoint: an empty directory, which must exist as long as the stream runs.
            trigger_ms: how often to check for new records.
        """
        if self._query is not None:
            if not self._query.isActive:
                error = self._query.exception()
                if error is not None:
                    raise error
                raise RuntimeError(f"the stream of {self._path} has ended")
            return
        try:
            find_partitions(self._path, self._topic)
        except NoSuchLog:
            return
        positions = self._store.position(self._source, self._topic)
        stream = followed(spark, self._path, self._topic, positions, crc=self._crc)
        self._query = (
            stream.writeStream.foreachBatch(self.append_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .start()
        )

    def stop(self) -> None:
        """End the stream after the current micro-batch, which Spark would interrupt otherwise.

        Later micro-batches are skipped. The next run reads their records.
        """
        self._is_stopping = True
        with self._lock:
            pass
        if self._query is not None:
            self._query.stop()

    def append_batch(self, batch: DataFrame, _batch_id: int) -> None:
        """Append one micro-batch, and the damage between its records."""
        with self._lock:
            begin = self._store.position(self._source, self._topic)
            if not self._is_stopping and self._bytes_from(begin) > self._much_bytes:
                self._write_with_spark(batch, begin)
                return
            for ranges in _slices(self._new(begin)):
                if self._is_stopping:
                    return
                self._write(ranges)

    def _bytes_from(self, begin: dict[int, int]) -> int:
        """Return about how much log there is from these offsets on."""
        total = 0
        for number, directory in find_partitions(self._path, self._topic).items():
            segments = list_segments(directory)
            offset = begin.get(number, 0)
            left = segments[segment_of(segments, offset) :]
            size_bytes = sum(each.size_bytes for each in left)
            hint = self._hint(number, offset)
            total += max(size_bytes - (hint.position if hint is not None else 0), 0)
        return total

    def _new(self, begin: dict[int, int]) -> list[LogRange]:
        """Return everything from these offsets on, in ranges of at most a slice."""
        ranges = []
        for number, directory in find_partitions(self._path, self._topic).items():
            offset = begin.get(number, 0)
            hint = self._hint(number, offset)
            found = whole_end(directory, offset, None, hint)
            while found.hint is None and list_segments(directory):
                # A segment was cleaned before it was opened, so there is more behind it.
                found = whole_end(directory, offset)
            if found.hint is not None:
                self._hints[number] = found.offset, found.hint
            size_bytes = found.size_bytes
            if size_bytes > _SLICE_BYTES:
                ranges += plan_ranges(directory, number, _SLICE_BYTES, offset, found.offset)
            elif size_bytes:
                ranges.append(LogRange(directory, number, offset, found.offset, size_bytes, hint))
        return ranges

    def _hint(self, number: int, offset: int) -> Hint | None:
        """Return the position of the batch with an offset, or of one before it, if it is known."""
        known_offset, hint = self._hints.get(number, (0, None))
        return hint if known_offset <= offset else None

    def _write(self, ranges: list[LogRange]) -> None:
        """Read ranges and append them, without Spark."""
        table = TABLE_OF[self._topic]
        found: list[pa.RecordBatch] = []
        damaged: list[pa.RecordBatch] = []
        for each in ranges:
            for step in read_range(each, table, crc=self._crc):
                if step.rows.num_rows:
                    found.append(with_input(self._source, table, step.rows))
                damaged += self._quarantined(step)
        written = {table: found, _QUARANTINE: damaged}
        directories = {
            name: self._store.write_rows(name, rows) for name, rows in written.items() if rows
        }
        if directories:
            reached = {each.log_partition: each.end_offset for each in ranges}
            count = sum(rows.num_rows for rows in found)
            self._append(self._source, self._topic, directories, reached, count)

    def _write_with_spark(self, batch: DataFrame, begin: dict[int, int]) -> None:
        """Append the new rows of a micro-batch with Spark."""
        table = TABLE_OF[self._topic]
        directory = self._store.new_directory(table)
        rows = batch.withColumn("input", sf.lit(self._source)).where(_from_offsets(begin))
        rows.select(*TABLES[table].schema.names).write.parquet(directory)
        reached, count = _reached(directory)
        if not count:
            shutil.rmtree(directory)
            return
        directories = {table: directory}
        partitions = find_partitions(self._path, self._topic)
        damaged = self._damaged(
            [
                LogRange(partitions[number], number, begin.get(number, 0), end)
                for number, end in reached.items()
                if number in partitions
            ]
        )
        if damaged:
            directories[_QUARANTINE] = self._store.write_rows(_QUARANTINE, damaged)
        self._append(self._source, self._topic, directories, reached, count)

    def _damaged(self, ranges: list[LogRange]) -> list[pa.RecordBatch]:
        """Return the damage in these ranges as rows."""
        return [
            rows
            for each in ranges
            for step in read_range(each, CHECKED_BY[self._topic], crc=self._crc)
            for rows in self._quarantined(step)
        ]

    def _quarantined(self, step: RangeStep) -> list[pa.RecordBatch]:
        """Return the damage of a step as rows, in an empty list if there is none."""
        if not step.damages:
            return []
        return [with_input(self._source, _QUARANTINE, quarantined(step.source, step.damages))]


def _slices(ranges: Iterable[LogRange]) -> Iterator[list[LogRange]]:
    """Combine ranges, in their order, into slices."""
    taken: list[LogRange] = []
    size_bytes = 0
    for each in ranges:
        if taken and size_bytes + each.size_bytes > _SLICE_BYTES:
            yield taken
            taken, size_bytes = [], 0
        taken.append(each)
        size_bytes += each.size_bytes
    if taken:
        yield taken


def _from_offsets(begin: dict[int, int]) -> Any:
    """Return the condition that a record has not been read before."""
    if not begin:
        return sf.lit(True)
    pairs = [sf.lit(each) for item in begin.items() for each in item]
    known = sf.try_element_at(sf.create_map(*pairs), sf.col("log_partition"))
    return sf.col("log_offset") >= sf.coalesce(known, sf.lit(0))


def _reached(directory: str) -> tuple[dict[int, int], int]:
    """Return the next offsets by log partition behind the records of files, and their number."""
    names = [name for name in os.listdir(directory) if name.endswith(".parquet")]
    reached: dict[int, int] = {}
    count = 0
    for name in names:
        places = pq.ParquetFile(os.path.join(directory, name)).read(["log_partition", "log_offset"])
        count += places.num_rows
        newest = places.group_by("log_partition").aggregate([("log_offset", "max")])
        for row in newest.to_pylist():
            number, offset = row["log_partition"], row["log_offset_max"] + 1
            reached[number] = max(reached.get(number, 0), offset)
    return reached, count
