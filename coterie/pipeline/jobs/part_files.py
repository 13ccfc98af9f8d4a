"""Parquet files written by Spark's workers with pyarrow: Spark hands out the work, not the rows.

A row that Spark writes has been Arrow in the worker, is made a row in Java and columns again, which
takes several times what decoding does. Bronze, and the commits decoded from it, are what a log has
millions of; so the workers write those themselves, below the same paths that all of them see.

A task that Spark starts again writes files of other names, and those that no finished task has told
of are removed before the part counts.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coterie.pipeline.tables import TABLES

# Some 30 MB of decoded records: a worker holds one of each table that it writes.
_ROW_GROUP_ROWS = 1 << 18
_TOLD = "directory string, name string"


class PartFiles:
    """What one task writes: a file for each table that it has rows of."""

    def __init__(self, directories: Mapping[str, str]) -> None:
        """Begin none yet.

        Args:
            directories: by table where its files belong.
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
        """Finish all files; tells each by its directory and name."""
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
        directories: by table an empty directory; a table that nothing was written of gets an empty
            file, so that every reader sees its columns.
        tasks: how many there are.
        work: does the task of a number; it is sent to the workers.
    """
    if tasks:
        tell = _teller(directories, work)
        told = spark.range(0, tasks, 1, tasks).mapInArrow(tell, _TOLD).collect()
    else:
        told = []
    finished = {os.path.join(row["directory"], row["name"]) for row in told}
    for table, directory in directories.items():
        for name in os.listdir(directory):
            if os.path.join(directory, name) not in finished:
                os.remove(os.path.join(directory, name))
        if not os.listdir(directory):
            nothing = TABLES[table].schema.empty_table()
            pq.write_table(nothing, os.path.join(directory, "empty.parquet"))


def _teller(
    directories: Mapping[str, str], work: Callable[[int, PartFiles], None]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    directories = dict(directories)

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = PartFiles(directories)
                work(number, files)
                finished = list(files.close())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([each[index] for each in finished], pa.string()) for index in (0, 1)],
                    names=["directory", "name"],
                )

    return tell
