"""Following one topic of a data directory: a structured stream, appended a micro-batch at a time.

A micro-batch tells that there is something new. What is new is read here, to the end of what is
there by then, and written without Spark: a job of Spark costs 300 ms, and beside a build a second
or two, where reading and writing a few records cost 20 ms. One core does a few hundred thousand
records a second so. Only of what would take it long Spark writes the micro-batches, on all cores.

Both begin where the manifest says that rows count already, and commit how far they came together
with their rows. What is read here never stops short of the micro-batch; what Spark then hands over
once more is passed over.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from coterie.pipeline.codec.views import CHECKED_BY, quarantined
from coterie.pipeline.jobs.follow_source import followed
from coterie.pipeline.jobs.live_store import LiveStore
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

# Of more log than that Spark writes the micro-batches. One core reads and writes it in 5 s. Spark
# takes three times the processor time for it, so two cores have no use for that, and twenty have.
MUCH_BYTES = 256 << 20
# What counts at once: it is in memory, decoded, while it is written.
_SLICE_BYTES = 16 << 20

_QUARANTINE = "quarantine"


# By table what was written, the next offsets, how many records: see `follow.py`.
Append = Callable[[str, str, dict[str, str], dict[int, int], int], None]


class Tail:
    """One topic of one data directory as a stream; it begins when the topic exists."""

    def __init__(
        self,
        store: LiveStore,
        append: Append,
        place: tuple[str, str, str],
        turn: threading.Lock,
        *,
        crc: bool = True,
        much_bytes: int = MUCH_BYTES,
    ) -> None:
        """Nothing is read before `look`.

        Args:
            store: where to append.
            append: lets written parts count.
            place: the input, its data directory, the topic.
            turn: held while a micro-batch is appended. Several directories of an input may have
                the same partition; they share one, so each record is taken from one of them.
            crc: whether to check checksums.
            much_bytes: of more log than that Spark writes the micro-batches.
        """
        self._store = store
        self._append = append
        self._source, self._path, self._topic = place
        self._turn = turn
        self._crc = crc
        self._much_bytes = much_bytes
        self._query: StreamingQuery | None = None
        self._is_stopping = False
        # By log partition an offset, and where its batch is.
        self._hints: dict[int, tuple[int, Hint]] = {}

    def look(self, spark: SparkSession, checkpoint: str, trigger_ms: int) -> None:
        """Start the stream if its topic is there by now, and raise if it has failed.

        Args:
            spark: where it runs.
            checkpoint: an empty directory, to be kept as long as the stream runs.
            trigger_ms: how often to look for new records.
        """
        if self._query is not None:
            if not self._query.isActive:
                error = self._query.exception()
                raise error if error is not None else RuntimeError(f"{self._path}: stream ended")
            return
        try:
            find_partitions(self._path, self._topic)
        except NoSuchLog:
            return
        positions = self._store.position(self._source, self._topic)
        stream = followed(spark, self._path, self._topic, positions, crc=self._crc)
        self._query = (
            stream.writeStream.foreachBatch(self.take)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .start()
        )

    def stop(self) -> None:
        """End the stream, after the micro-batch that is being appended: Spark would interrupt it.

        Those that follow are passed over, and read by whoever comes next.
        """
        self._is_stopping = True
        with self._turn:
            pass
        if self._query is not None:
            self._query.stop()

    def take(self, batch: DataFrame, _batch_id: int) -> None:
        """Append one micro-batch, and what was damaged between its records."""
        with self._turn:
            begin = self._store.position(self._source, self._topic)
            if not self._is_stopping and self._bytes_from(begin) > self._much_bytes:
                self._write_with_spark(batch, begin)
                return
            for ranges in _slices(self._new(begin)):
                if self._is_stopping:
                    return
                self._write(ranges)

    def _bytes_from(self, begin: dict[int, int]) -> int:
        """How much log there is from these offsets on, about."""
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
        """What comes behind these offsets, to the end of what is there, in ranges of a slice."""
        ranges = []
        for number, directory in find_partitions(self._path, self._topic).items():
            offset = begin.get(number, 0)
            hint = self._hint(number, offset)
            found = whole_end(directory, offset, None, hint)
            while found.hint is None and list_segments(directory):
                # A segment was cleaned before it was opened, and there is more behind it.
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
        """Where the batch with an offset of a partition is, or one before it."""
        known_offset, hint = self._hints.get(number, (0, None))
        return hint if known_offset <= offset else None

    def _write(self, ranges: list[LogRange]) -> None:
        """Append ranges, read and written here."""
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
        """Append what is new of a micro-batch."""
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
        """What can't be decoded in these ranges."""
        return [
            rows
            for each in ranges
            for step in read_range(each, CHECKED_BY[self._topic], crc=self._crc)
            for rows in self._quarantined(step)
        ]

    def _quarantined(self, step: RangeStep) -> list[pa.RecordBatch]:
        """The damage of a step as rows; none if there is none."""
        if not step.damages:
            return []
        return [with_input(self._source, _QUARANTINE, quarantined(step.source, step.damages))]


def _slices(ranges: Iterable[LogRange]) -> Iterator[list[LogRange]]:
    """Ranges in their order, as many at a time as are about a slice."""
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
    """Whether a record has not been read before."""
    if not begin:
        return sf.lit(True)
    pairs = [sf.lit(each) for item in begin.items() for each in item]
    known = sf.try_element_at(sf.create_map(*pairs), sf.col("log_partition"))
    return sf.col("log_offset") >= sf.coalesce(known, sf.lit(0))


def _reached(directory: str) -> tuple[dict[int, int], int]:
    """The next offset by log partition, behind the records of some Parquet files; how many."""
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
