"""An output directory that grows while its tables are worked out.

Two things go on at once in a directory that is followed: new records are appended, several times a
second, and the other tables are built from a state that stands still. So an append is a commit of
its own (files first, then the manifest, as everywhere), a build works on a copy of the manifest,
and only the commits themselves take turns.

Invariants: a part's number is given when it begins to count, so what a build has not seen has a
higher number than what it writes; a merged part goes by the number of its oldest, so it keeps their
place in the order. For that reason two kinds of parts are never merged: the newest of a table, for
its number tells how far decoding has come, and those that no build has seen yet.
"""

import copy
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.store import Positions, Store
from coterie.pipeline.tables import TABLES

# So many small parts of a table are merged: a reader opens each of them, at about a millisecond.
MAX_PARTS = 64
# How long a merged part may get. What has grown so long is not written again, and to merge needs
# no more memory than a part of it.
MERGED_BYTES = 8 << 20


class LiveStore(Store):
    """The tables of an output directory that is followed; open it with `LiveStore.open`."""

    def __init__(self, path: str, manifest: dict[str, Any]) -> None:
        """See `Store`."""
        super().__init__(path, manifest)
        self._turn = threading.RLock()
        # Following is one run, however often it commits.
        self._earlier_runs = self.runs
        self._told: dict[str, Any] = {}
        # The part that the last build wrote; bronze parts with a higher number are not decoded.
        self._built = ""

    def new_directory(self, table: str) -> str:
        """Where to write Parquet files for `append`; it is not there yet."""
        os.makedirs(os.path.join(self.path, table), exist_ok=True)
        return os.path.join(self.path, table, f".part=new-{uuid.uuid4().hex}")

    def write_rows(self, table: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Such a directory with some rows in it, written without Spark."""
        return self._write(table, pa.Table.from_batches(batches))

    def append(
        self,
        directories: Mapping[str, str],
        positions: Positions,
        report: Mapping[str, Any],
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Add a part to each of some tables, and let it count.

        Args:
            directories: by table one of `new_directory`, written by now.
            positions: how far that brings each input.
            report: about the run so far, for the manifest.
            about: by input what to remember of it.
        """
        with self._turn:
            for table, directory in directories.items():
                self._place(table, directory, self._part_name())
                self._added.add(table)
            self._told = dict(report)
            self._commit(positions, about)

    def snapshot(self) -> "Building":
        """The directory as it is now, to build the other tables from."""
        with self._turn:
            building = Building(self.path, copy.deepcopy(self._manifest), self)
            # What is appended from now on has higher numbers than what is built.
            self._manifest["next_run"] += 1
        return building

    def take_over(self, written: dict[str, dict[str, Any]], added: set[str], part: str) -> None:
        """Let what was built count, as the part that a build has written."""
        with self._turn:
            self._written, self._added = written, added
            self._commit({}, None)
            self._built = part

    def merge(self, table: str) -> int:
        """Make few parts of many small ones, if there are many; returns how many there were.

        Nobody may be building meanwhile. Parts that no build has seen are left alone.
        """
        names = [name for name in self.parts(table)[:-1] if name < self._built]
        runs = [run for run in self._small_runs(table, names) if len(run) > 1]
        gone = {name for run in runs for name in run}
        if len(gone) < MAX_PARTS:
            return 0
        written = [(run, self._merged(table, run)) for run in runs]
        with self._turn:
            parts = self._manifest["tables"][table]
            kept = {name: part for name, part in parts.items() if name not in gone}
            for run, hidden in written:
                first = run[0].split("-", 1)[0]
                self._place(table, hidden, f"{first}-{self.next_run:06d}")
                kept |= self._written[table]
            # The commit replaces what it knows of the table by what was written.
            self._written[table] = dict(sorted(kept.items()))
            self._manifest["tables"][table] = {name: parts[name] for name in gone}
            self._commit({}, None)
        return len(gone)

    def _small_runs(self, table: str, names: Sequence[str]) -> list[list[str]]:
        """These parts, oldest first, in runs that are small enough to become one part each."""
        runs: list[list[str]] = [[]]
        size_bytes = 0
        for name in names:
            part_bytes = self._parts(table)[name]["bytes"]
            if runs[-1] and size_bytes + part_bytes > MERGED_BYTES:
                runs.append([])
                size_bytes = 0
            runs[-1].append(name)
            size_bytes += part_bytes
        return runs

    def _merged(self, table: str, names: Sequence[str]) -> str:
        """A directory with the rows of some parts."""
        files = [
            os.path.join(self.path, table, name, file)
            for name in names
            for file in sorted(os.listdir(os.path.join(self.path, table, name)))
        ]
        schema = TABLES[table].schema
        return self._write(table, pa.concat_tables(_rows_of(file, schema) for file in files))

    def _write(self, table: str, rows: pa.Table) -> str:
        directory = self.new_directory(table)
        os.mkdir(directory)
        pq.write_table(rows, os.path.join(directory, "rows.parquet"))
        return directory

    def _commit(self, positions: Positions, about: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._manifest["runs"] = self._earlier_runs
        super().commit(positions, self._told, about)


class Building(Store):
    """A state of a followed directory, with the tables that are built from it."""

    def __init__(self, path: str, manifest: dict[str, Any], live: LiveStore) -> None:
        """Use `LiveStore.snapshot`."""
        super().__init__(path, manifest)
        self._live = live

    def commit(
        self,
        positions: Positions,  # noqa: ARG002 - a build reads nothing new
        report: Mapping[str, Any],  # noqa: ARG002 - it belongs to the run that follows
        about: Mapping[str, Mapping[str, Any]] | None = None,  # noqa: ARG002
    ) -> None:
        """Let what was built count in the directory as it is by now."""
        self._live.take_over(self._written, self._added, self._part_name())
        self._written, self._added = {}, set()


def _rows_of(path: str, schema: pa.Schema) -> pa.Table:
    """A Parquet file's rows, in the table's own types whoever wrote it."""
    return pq.ParquetFile(path).read().select(schema.names).cast(schema)
