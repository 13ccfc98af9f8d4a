"""Parquet files scanned by pyarrow in Spark's workers: Spark hands out the files, not the rows.

Spark's own scan makes a row of every record and Arrow of every row before a worker sees it, which
costs several times what the sums over them do. So the workers open the files themselves, which all
of them see under the same path, like the inputs, and Spark gets what comes out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.schemas import spark_schema

Work = Callable[[pa.RecordBatch], pa.RecordBatch]

# What a worker has in hand at once, some 50 MB; numpy sorts smaller arrays faster for their size,
# and sums up less of them.
BATCH_ROWS = 500_000
# A task costs about 30 ms by itself, and so many rows ten times that.
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
    """What comes of the rows of some files, a batch of `BATCH_ROWS` at a time.

    Args:
        spark: the session.
        files: Parquet, each with these columns.
        columns: which are read.
        work: from a batch to rows of `schema`; it is sent to the workers.
        schema: of what comes out.
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
    """Row groups in tasks of about `_TASK_ROWS`, in the order of the files."""
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
