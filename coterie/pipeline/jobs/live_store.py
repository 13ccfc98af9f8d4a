"""An output directory to which records are appended while its tables are built.

In a directory that is followed, new records are appended several times a second, while the other
tables are built from a fixed state. Each append is a commit of its own: files first, then the
manifest. A build works on a copy of the manifest, and only the commits exclude each other.

Invariants: another thread sees a part only once it is committed, together with the positions and
what is stored about its input. A part gets its number when it is committed, so parts that a build
has not read have higher numbers than the parts that it writes. A merged part has the number of its
oldest part, so the order of parts does not change [pipeline/manifest].
"""

import copy
import os
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.part_files import read_files
from coterie.pipeline.store import Positions, Store
from coterie.pipeline.tables import TABLES

# This many small parts of a table are merged, because a reader needs about a millisecond to open
# each of them.
MAX_PARTS = 64
# The largest size of a merged part. Larger parts are not merged again, and merging does not need
# more memory than one such part.
MERGED_BYTES = 8 << 20


class Append(Protocol):
    """The function with which a follower commits written parts; see `_Following.append`."""

    def __call__(
        self,
        source: str,
        topic: str,
        directories: dict[str, str],
        positions: dict[int, int],
        rows: int,
        about: dict[str, Any] | None = None,
        /,
    ) -> None:
        """Commit written parts."""


class LiveStore(Store):
    """The tables of an output directory that is followed; open it with `LiveStore.open`."""

    def __init__(self, path: str, manifest: dict[str, Any]) -> None:
        """See `Store`."""
        super().__init__(path, manifest)
        self._lock = threading.RLock()
        # Held while parts are merged, and while somebody reads files that must stay.
        self._merging = threading.Lock()
        # All commits of a follower are one run in the manifest.
        self._earlier_runs = self.runs
        self._report: dict[str, Any] = {}
        # The name of the part that the last build wrote. Bronze parts with a higher number are not
        # decoded yet.
        self._built = ""

    def parts(self, table: str, *, newer_than: str | None = None) -> list[str]:
        """Return the committed parts of a table, oldest first; see `Store.parts`."""
        with self._lock:
            return super().parts(table, newer_than=newer_than)

    def rows(self, table: str) -> int:
        """Return the number of committed rows of a table."""
        with self._lock:
            return super().rows(table)

    def files(self, table: str, parts: Collection[str] | None = None) -> list[str]:
        """Return the Parquet files of a table's committed parts; see `Store.files`."""
        with self._lock:
            return super().files(table, parts)

    @contextmanager
    def unmerged(self) -> Iterator[None]:
        """Merge no parts until the end of the block, so that files can be read one by one."""
        with self._merging:
            yield

    def new_directory(self, table: str) -> str:
        """Return the name of a directory, not created yet, for Parquet files for `append`."""
        os.makedirs(os.path.join(self.path, table), exist_ok=True)
        return os.path.join(self.path, table, f".part=new-{uuid.uuid4().hex}")

    def write_rows(self, table: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Write rows to a directory for `append`, without Spark, and return its name."""
        return self._write(table, pa.Table.from_batches(batches))

    def append(
        self,
        directories: Mapping[str, str],
        positions: Positions,
        report: Mapping[str, Any],
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Add a part to each of some tables, and commit it.

        Args:
            directories: by table a directory of `new_directory` with its files.
            positions: the next offsets of the inputs.
            report: the entry of the run so far for the manifest.
            about: by input what the manifest stores about it.
        """
        with self._lock:
            for table, directory in directories.items():
                self._place(table, directory, self._part_name())
                self._added.add(table)
            self._report = dict(report)
            self._commit(positions, about)

    def snapshot(self) -> "Building":
        """Return the directory as it is now, for building the other tables."""
        with self._lock:
            building = Building(self.path, copy.deepcopy(self._manifest), self)
            # Parts that are appended from now on get higher numbers than those that are built.
            self._manifest["next_run"] += 1
        return building

    def commit_build(self, written: dict[str, dict[str, Any]], added: set[str], part: str) -> None:
        """Commit what a build has written as its part."""
        with self._lock:
            self._written, self._added = written, added
            self._commit({}, None)
            self._built = part

    def merge(self, table: str) -> int:
        """Merge the small parts of a table if there are many.

        No build may be running. Parts that no build has read are not merged. Nothing is merged
        while a block of `unmerged` runs: the merge after the next build comes soon enough.

        Returns:
            The number of parts that were merged.
        """
        if not self._merging.acquire(blocking=False):
            return 0
        try:
            return self._merge(table)
        finally:
            self._merging.release()

    def _merge(self, table: str) -> int:
        names = [name for name in self.parts(table)[:-1] if name < self._built]
        runs = [run for run in self._small_runs(table, names) if len(run) > 1]
        merged = {name for run in runs for name in run}
        if len(merged) < MAX_PARTS:
            return 0
        written = [(run, self._merged(table, run)) for run in runs]
        with self._lock:
            parts = self._manifest["tables"][table]
            kept = {name: part for name, part in parts.items() if name not in merged}
            for run, hidden in written:
                first = run[0].split("-", 1)[0]
                self._place(table, hidden, f"{first}-{self.next_run:06d}")
                kept |= self._written[table]
            # The commit replaces the parts of the table by those in `_written`, and removes the
            # files of the parts that it replaces. So all other parts become written ones.
            self._written[table] = dict(sorted(kept.items()))
            self._manifest["tables"][table] = {name: parts[name] for name in merged}
            self._commit({}, None)
        return len(merged)

    def _small_runs(self, table: str, names: Sequence[str]) -> list[list[str]]:
        """Divide parts, oldest first, into runs that are small enough for one part each."""
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
        """Write the rows of some parts to a directory, and return its name."""
        files = [
            os.path.join(self.path, table, name, file)
            for name in names
            for file in sorted(os.listdir(os.path.join(self.path, table, name)))
        ]
        return self._write(table, read_files(files, TABLES[table].schema))

    def _write(self, table: str, rows: pa.Table) -> str:
        directory = self.new_directory(table)
        os.mkdir(directory)
        pq.write_table(rows, os.path.join(directory, "rows.parquet"))
        return directory

    def _commit(self, positions: Positions, about: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._manifest["runs"] = self._earlier_runs
        super().commit(positions, self._report, about)


class Building(Store):
    """A fixed state of a followed directory, and the tables that are built from it."""

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
        """Commit what was built to the directory as it is by now."""
        self._live.commit_build(self._written, self._added, self._part_name())
        self._written, self._added = {}, set()
