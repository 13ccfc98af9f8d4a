"""Scan Parquet files with pyarrow in Spark's workers: Spark distributes files instead of rows.

Spark's own scan makes a Java row of every record, and Arrow of every row, before a worker gets it.
That costs several times as much as the sums over the rows. So the workers open the files, which all
of them must see under the same path, and Spark receives only the sums (ADR 8).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.schemas import spark_schema

Work = Callable[[pa.RecordBatch], pa.RecordBatch]

# The rows that a worker processes at a time, about 50 MB. Numpy sorts smaller arrays faster for
# their size, but then more partial sums remain to be joined.
BATCH_ROWS = 500_000
# This many rows take ten times as long as the fixed cost of a task [pipeline/spark-tasks].
_TASK_ROWS = 2_000_000


class _Share(NamedTuple):
    """Some row groups of one file."""

    path: str
    row_groups: list[int]


def scan_files(
    spark: SparkSession,
    files: Iterable[str],
    columns: Sequence[str],
    work: Work,
    schema: pa.Schema,
    names: Sequence[str] = (),
) -> DataFrame:
    """Apply a function to the rows of files, in batches of `BATCH_ROWS`.

    Args:
        spark: the session.
        files: Parquet files with these columns.
        columns: the columns to read.
        work: turns a batch into rows of `schema`; it is sent to the workers.
        schema: the schema of the result.
        names: columns of few different strings, which `work` gets as dictionaries.
    """
    tasks = _tasks(files)
    if not tasks:
        return spark.createDataFrame([], spark_schema(schema))

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for share in tasks[number]:
                    yield from _scanned(share, columns, names, work)

    # One row in each of as many partitions as there are tasks: Spark starts a Python task for each
    # row, and the row is the task's number. The list of tasks is sent along with the function.
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(scan, spark_schema(schema))


def _scanned(
    share: _Share, columns: Sequence[str], names: Sequence[str], work: Work
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(share.path, read_dictionary=list(names)) as file:
        for rows in file.iter_batches(BATCH_ROWS, share.row_groups, list(columns)):
            found = work(rows)
            if found.num_rows:
                yield found


def _tasks(files: Iterable[str]) -> list[list[_Share]]:
    """Combine row groups into tasks of about `_TASK_ROWS`, in the order of the files."""
    tasks: list[list[_Share]] = []
    room = 0
    for path in files:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            if not rows:
                continue
            if rows > room:
                tasks.append([])
                room = _TASK_ROWS
            room -= rows
            task = tasks[-1]
            if task and task[-1].path == path:
                task[-1].row_groups.append(number)
            else:
                task.append(_Share(path, [number]))
    return tasks
