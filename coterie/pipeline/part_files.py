"""Write and read the Parquet files of tables with pyarrow, in whatever process a task runs.

If Spark wrote the files, rows that are Arrow columns in the worker would become Java rows and then
columns again, which takes several times as long as decoding (ADR 23).

A task may run more than once. Every attempt writes files of other names [pipeline/manifest].
"""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.engine import note_rows_read
from coterie.pipeline.store import Store, sync
from coterie.pipeline.tables import TABLES

# About 30 MB of decoded records. A task holds one row group of each table that it writes.
_ROW_GROUP_ROWS = 1 << 18
# This many rows take ten times as long as the fixed cost of a task [pipeline/engines].
_TASK_ROWS = 2_000_000
# A follower appends a hundred small files within half a minute, and opening one takes a
# millisecond, so every file counts as at least this many rows.
_FILE_ROWS = 20_000


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

    def write(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows to a table; columns that the table does not have are left out."""
        if not rows.num_rows:
            return
        rows = rows.select(TABLES[table].schema.names)
        waiting = self._waiting.setdefault(table, [])
        waiting += rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        if sum(each.num_rows for each in waiting) >= _ROW_GROUP_ROWS:
            self._flush(table)

    def close(self) -> list[str]:
        """Finish all files, and return their paths."""
        for table in list(self._waiting):
            self._flush(table)
        finished = []
        for table, writer in self._writers.items():
            writer.close()
            finished.append(self._path(table))
            sync(finished[-1])
        return finished

    def _path(self, table: str) -> str:
        return os.path.join(self._directories[table], self._name)

    def _flush(self, table: str) -> None:
        waiting, self._waiting[table] = self._waiting[table], []
        if not waiting:
            return
        schema = TABLES[table].schema
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(self._path(table), schema)
        rows = pa.Table.from_batches(waiting).cast(schema)
        self._writers[table].write_table(rows, row_group_size=len(rows))


def keep_finished(directories: Mapping[str, str], finished: Iterable[Iterable[str]]) -> None:
    """Remove the files of attempts that did not count from the directories of some tables.

    A table without rows gets an empty file, so that every reader finds its columns.

    Args:
        directories: the directories by table.
        finished: what `PartFiles.close` returned in each task.
    """
    counting = {path for paths in finished for path in paths}
    for table, directory in directories.items():
        for name in os.listdir(directory):
            if os.path.join(directory, name) not in counting:
                os.remove(os.path.join(directory, name))
        if not os.listdir(directory):
            nothing = TABLES[table].schema.empty_table()
            pq.write_table(nothing, os.path.join(directory, "empty.parquet"))


class Share(NamedTuple):
    """Some row groups of one file."""

    path: str
    row_groups: list[int]


def shares(files: Iterable[str]) -> list[list[Share]]:
    """Divide files into tasks of about two million rows, in the order of the files.

    Args:
        files: Parquet files; small ones share a task.
    """
    tasks: list[list[Share]] = []
    room = 0
    for path in files:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            if not rows:
                continue
            size = max(rows, _FILE_ROWS)
            if size > room:
                tasks.append([])
                room = _TASK_ROWS
            room -= size
            task = tasks[-1]
            if task and task[-1].path == path:
                task[-1].row_groups.append(number)
            else:
                task.append(Share(path, [number]))
    return tasks


def read_share(
    task: Iterable[Share], schema: pa.Schema, size: int, names: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a task, some at a time.

    Args:
        task: the row groups.
        schema: the columns to read; one that a file of an earlier release lacks is null.
        size: the largest number of rows at a time.
        names: columns of few different strings, which are read as dictionaries.
    """
    for share in task:
        with pq.ParquetFile(share.path, read_dictionary=list(names)) as file:
            present = [name for name in schema.names if name in file.schema_arrow.names]
            for rows in file.iter_batches(size, share.row_groups, present):
                yield _conforming(rows, schema)
                note_rows_read(rows.num_rows)


def read_files(files: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Read all rows of some files; see `read_share` for `schema`."""
    tables = []
    for path in files:
        with pq.ParquetFile(path) as file:
            present = [name for name in schema.names if name in file.schema_arrow.names]
            batches = file.read(present).to_batches()
            tables += [pa.Table.from_batches([_conforming(each, schema)]) for each in batches]
    return pa.concat_tables([schema.empty_table(), *tables])


def read_table(store: Store, table: str) -> pa.Table:
    """Return a table of a store; empty if nothing was written yet."""
    return read_files(store.files(table), TABLES[table].schema)


def _conforming(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly these columns; pyarrow and Spark write slightly different types."""
    columns = []
    for field in schema:
        index = rows.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
        elif rows.column(index).type == field.type or pa.types.is_dictionary(
            rows.column(index).type
        ):
            columns.append(rows.column(index))
        else:
            columns.append(rows.column(index).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
