"""Write Parquet files with pyarrow in Spark's workers: Spark distributes tasks instead of rows.

If Spark writes the files, rows that are Arrow columns in the worker become Java rows and then
columns again, which takes several times as long as decoding. Bronze and the commits decoded from
it have millions of rows, so the workers write these tables themselves (ADR 8).

Spark may run a task more than once. Every attempt writes files of other names
[pipeline/task-files].
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coterie.pipeline.tables import TABLES

# About 30 MB of decoded records. A worker holds one row group of each table that it writes.
_ROW_GROUP_ROWS = 1 << 18
_FINISHED_SCHEMA = "directory string, name string"


class PartFiles:
    """The files of one task: one for each table for which it has rows."""

    def __init__(self, directories: Mapping[str, str]) -> None:
        """Create no file yet.

        Args:
            directories: the directory of each table's files.
        """
        self._directories = directories
        self._name = f"part-{uuid.uuid4().hex}.parquet"
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        """Add rows to a table."""
        if not rows.num_rows:
            return
        waiting = self._waiting.setdefault(table, [])
        waiting.append(rows)
        if sum(each.num_rows for each in waiting) >= _ROW_GROUP_ROWS:
            self._flush(table)

    def close(self) -> Iterator[tuple[str, str]]:
        """Finish all files, and yield the directory and name of each."""
        for table in list(self._waiting):
            self._flush(table)
        for table, writer in self._writers.items():
            writer.close()
            yield self._directories[table], self._name

    def _flush(self, table: str) -> None:
        waiting, self._waiting[table] = self._waiting[table], []
        if not waiting:
            return
        schema = TABLES[table].schema
        if table not in self._writers:
            path = os.path.join(self._directories[table], self._name)
            self._writers[table] = pq.ParquetWriter(path, schema)
        rows = pa.Table.from_batches(waiting, schema)
        self._writers[table].write_table(rows, row_group_size=len(rows))


def write_parts(
    spark: SparkSession,
    directories: Mapping[str, str],
    tasks: int,
    work: Callable[[int, PartFiles], None],
) -> None:
    """Let workers write files of some tables.

    Args:
        spark: the session.
        directories: by table an empty directory; a table without rows gets an empty file, so that
            every reader finds its columns.
        tasks: the number of tasks.
        work: does the task with a number; it is sent to the workers.
    """
    if tasks:
        write = _writer(directories, work)
        # One row in each partition, the number of a task. The rows that come back name the files
        # of the attempts that Spark accepted.
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(write, _FINISHED_SCHEMA).collect()
    else:
        rows = []
    finished = {os.path.join(row["directory"], row["name"]) for row in rows}
    for table, directory in directories.items():
        for name in os.listdir(directory):
            if os.path.join(directory, name) not in finished:
                os.remove(os.path.join(directory, name))
        if not os.listdir(directory):
            nothing = TABLES[table].schema.empty_table()
            pq.write_table(nothing, os.path.join(directory, "empty.parquet"))


def _writer(
    directories: Mapping[str, str], work: Callable[[int, PartFiles], None]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    directories = dict(directories)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = PartFiles(directories)
                work(number, files)
                finished = list(files.close())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([each[index] for each in finished], pa.string()) for index in (0, 1)],
                    names=["directory", "name"],
                )

    return write
