"""Rows that tasks pass to other tasks, brought together by key, in files.

Tasks of one step add rows of several kinds, each to a bucket: rows with the same key are in the
same bucket. Tasks of the next step get a bucket each. A task writes one Arrow file for each kind,
with the rows of a bucket in batches of their own, so a reader takes only its own batches.
"""

import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec.numbers import Int64s
from coterie.pipeline.engine import Engine

R = TypeVar("R")
Schemas = Mapping[str, pa.Schema]

# So many rows of a kind are collected before they are divided by bucket and written.
_FLUSHED_ROWS = 1 << 18


class _Written(NamedTuple):
    """A file of one kind.

    Attributes:
        kind, path: the kind of its rows, and where it is.
        batches: the numbers of its batches by bucket.
        rows: the number of its rows.
    """

    kind: str
    path: str
    batches: dict[int, list[int]]
    rows: int = 0


class Outbox:
    """The rows that one task passes on."""

    def __init__(self, directory: str, schemas: Schemas, buckets: int) -> None:
        """Create no file yet.

        Args:
            directory: an existing directory.
            schemas: the columns of each kind of rows.
            buckets: the number of buckets.
        """
        self._directory = directory
        self._schemas = schemas
        self._buckets = buckets
        self._waiting: dict[str, list[tuple[pa.Table, Int64s]]] = {}
        self._files: dict[str, tuple[_Written, pa.ipc.RecordBatchFileWriter]] = {}

    def add(self, kind: str, rows: pa.RecordBatch | pa.Table, codes: Int64s | None = None) -> None:
        """Add rows.

        Args:
            kind: a key of `schemas`.
            rows: rows with the columns of that kind.
            codes: a number for each row; equal keys have equal numbers. None for `group_id` as key.
        """
        if not rows.num_rows:
            return
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if codes is None:
            codes = text_codes(table.column("group_id"))
        waiting = self._waiting.setdefault(kind, [])
        waiting.append((table.select(self._schemas[kind].names), codes % self._buckets))
        if sum(each.num_rows for each, _ in waiting) >= _FLUSHED_ROWS:
            self._flush(kind)

    def put(self, kind: str, rows: pa.Table, bucket: int) -> None:
        """Add rows to a given bucket."""
        self.add(kind, rows, np.full(rows.num_rows, bucket, np.int64))

    def close(self) -> list[_Written]:
        """Finish all files."""
        for kind in list(self._waiting):
            self._flush(kind)
        for _, writer in self._files.values():
            writer.close()
        return [written for written, _ in self._files.values()]

    def _flush(self, kind: str) -> None:
        waiting, self._waiting[kind] = self._waiting[kind], []
        if not waiting:
            return
        schema = self._schemas[kind]
        rows = pa.concat_tables(table.cast(schema) for table, _ in waiting).combine_chunks()
        buckets = np.concatenate([each for _, each in waiting])
        if self._buckets > 1:
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        if kind not in self._files:
            path = os.path.join(self._directory, f"{kind}-{uuid.uuid4().hex}.arrow")
            self._files[kind] = (_Written(kind, path, {}), pa.ipc.new_file(path, schema))
        written, writer = self._files[kind]
        self._files[kind] = (written._replace(rows=written.rows + len(buckets)), writer)
        starts = np.flatnonzero(np.append(True, buckets[1:] != buckets[:-1])).tolist()
        number = sum(map(len, written.batches.values()))
        for begin, end in zip(starts, [*starts[1:], len(buckets)], strict=True):
            # One chunk in a table is one batch in the file.
            writer.write_table(rows.slice(begin, end - begin).combine_chunks())
            written.batches.setdefault(int(buckets[begin]), []).append(number)
            number += 1


class RowExchange:
    """The rows that the tasks of one step have passed on."""

    def __init__(self, schemas: Schemas, buckets: int, written: list[_Written]) -> None:
        self.schemas = schemas
        self.buckets = buckets
        self._written = written

    def count(self, kind: str) -> int:
        """Return the number of rows of a kind."""
        return sum(file.rows for file in self._written if file.kind == kind)

    def rows(
        self, kind: str, bucket: int | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows of a kind: those of one bucket, or all.

        Args:
            kind: the kind; without rows the result is empty.
            bucket: the number of the bucket; None for all rows.
            columns: the columns; None for all.
        """
        schema = self.schemas[kind]
        batches = [each for file in self._written for each in _batches(file, kind, bucket)]
        rows = pa.Table.from_batches(batches, schema).select(columns or schema.names)
        return rows.combine_chunks()


def _batches(written: _Written, kind: str, bucket: int | None) -> Iterator[pa.RecordBatch]:
    if written.kind != kind:
        return
    some = written.batches if bucket is None else {bucket: written.batches.get(bucket, [])}
    numbers = sorted(number for each in some.values() for number in each)
    if not numbers:
        return
    with pa.memory_map(written.path) as mapped:
        file = pa.ipc.open_file(mapped)
        for number in numbers:
            yield file.get_batch(number)


def exchange(
    engine: Engine,
    directory: str,
    schemas: Schemas,
    buckets: int,
    count: int,
    work: Callable[[int, Outbox], R],
) -> tuple[RowExchange, list[R]]:
    """Run tasks that pass rows on.

    Args:
        engine: runs the tasks.
        directory: an existing directory for the files.
        schemas: the columns of each kind of rows.
        buckets: the number of buckets.
        count: the number of tasks.
        work: does the task with a number, and adds its rows.

    Returns:
        The rows, and the results of the tasks in their order.
    """
    schemas = dict(schemas)

    def do(number: int) -> tuple[list[_Written], R]:
        outbox = Outbox(directory, schemas, buckets)
        result = work(number, outbox)
        return outbox.close(), result

    finished = engine.run(count, do)
    written = [each for files, _ in finished for each in files]
    return RowExchange(schemas, buckets, written), [result for _, result in finished]


def text_codes(column: pa.ChunkedArray) -> Int64s:
    """Return a number for each text or value of bytes, which is the same in every process."""
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    names = [zlib.crc32(name) for name in encoded.dictionary.cast(pa.binary()).to_pylist()]
    # Null has the number behind the last name.
    index = encoded.indices.fill_null(len(names)).to_numpy()
    codes: Int64s = np.array([*names, 0], np.int64)[index]
    return codes
