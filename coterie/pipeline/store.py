"""An output directory: tables of Parquet files, and a manifest that says which of them count.

    OUTPUT/manifest.json               versions, inputs, how far each was read, every run
    OUTPUT/<table>/part=<run>/*.parquet

A run writes its parts to hidden directories, renames these, and replaces the manifest, which
commits the parts [pipeline/manifest]. The leftovers of a killed run are removed when the directory
is opened for writing the next time, so any reader of Parquet then finds whole files and each row
once.

Tables of single records (bronze, and silver that is decoded from it) grow by one part per run; the
others are built again and replaced. Parts are numbered by run [pipeline/manifest].

Invariants: one process writes at a time (lock file). No name begins with an underscore, because
Spark ignores such files. The parts of a table are those in the manifest.
"""

import copy
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from coterie.pipeline.errors import StoreError
from coterie.pipeline.tables import TABLES
from coterie.protocol.topic_names import OFFSETS_TOPIC

# The next log offset to read, by input, topic and partition.
Positions = Mapping[str, Mapping[str, Mapping[int, int]]]

MANIFEST = "manifest.json"
_LOCK = ".lock"
_NEW = ".tmp"
_SCRATCH = ".scratch-"
# Of readers, which run at the same time as a run; a killed one leaves its directory.
_READING = ".reading-"
_READING_S = 24 * 3600
_VERSION = 1
_PART = "part="
# The manifest has entries for this many runs.
_REMEMBERED_RUNS = 200


class Store:
    """The tables of one output directory."""

    def __init__(self, path: str, manifest: dict[str, Any]) -> None:
        """Use `Store.open` or `Store.reading`."""
        self.path = path
        self._manifest = manifest
        self._written: dict[str, dict[str, Any]] = {}
        # The tables among them to which the part is added. In the others it replaces all parts.
        self._added: set[str] = set()

    @classmethod
    def reading(cls, path: str) -> "Store":
        """Open a directory that a run has written, for reading.

        Raises:
            StoreError: there is no manifest, or one of another version.
        """
        manifest = _read_manifest(path)
        if manifest is None:
            raise StoreError(
                f"{path} has no {MANIFEST}: give a directory that `coterie pipeline run` has"
                " written with --output"
            )
        return cls(path, manifest)

    @classmethod
    @contextmanager
    def open(cls, path: str) -> "Iterator[Store]":
        """Open a directory for writing, and lock it until the end of the block.

        It is created if it does not exist.

        Raises:
            StoreError: another run has locked it, it cannot be written, or it contains other files.
        """
        try:
            os.makedirs(path, exist_ok=True)
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"{path} is in use by another run of `coterie pipeline`: wait until it has"
                    " ended, or give another --output"
                ) from None
            manifest = _read_manifest(path)
            if manifest is None:
                _check_empty(path)
                manifest = {
                    "version": _VERSION,
                    "next_run": 0,
                    "inputs": {},
                    "tables": {},
                    "runs": [],
                }
                # Written before any part: if the run is killed before its commit, the manifest
                # shows that the parts it leaves are ours.
                _replace(os.path.join(path, MANIFEST), _as_text(manifest))
            store = cls(path, manifest)
            store._remove_leftovers()
            yield store
        finally:
            os.close(lock)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[str]:
        """The inputs that have been read, in the order of their first reading."""
        return list(self._manifest["inputs"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The entries of the runs, the newest last."""
        return list(self._manifest["runs"])

    def about(self, source: str) -> dict[str, Any]:
        """Return what was stored about an input with `commit`."""
        return dict(self._manifest["inputs"].get(source, {}).get("about", {}))

    @property
    def next_run(self) -> int:
        """The number of the current run, or of the next one."""
        number: int = self._manifest["next_run"]
        return number

    def position(self, source: str, topic: str = OFFSETS_TOPIC) -> dict[int, int]:
        """Return the next log offset to read of an input's topic, by log partition."""
        stored = self._manifest["inputs"].get(source, {}).get("next_offsets", {}).get(topic, {})
        return {int(partition): offset for partition, offset in stored.items()}

    def parts(self, table: str, *, newer_than: str | None = None) -> list[str]:
        """Return the parts of a table, oldest first, including those of the current run.

        Args:
            table: the table.
            newer_than: another table: return only parts with a higher number than its newest one.
        """
        names = [os.path.basename(directory) for directory in self._directories(table)]
        if newer_than is not None:
            newest = max(self._parts(newer_than), default="")
            names = [name for name in names if name > newest]
        return names

    def rows(self, table: str) -> int:
        """Return the number of rows of a table, including those of the current run."""
        before, new = self._parts(table), self._written.get(table, {})
        parts = {**before, **new} if table in self._added or not new else new
        return sum(part["rows"] for part in parts.values())

    def files(self, table: str, parts: Collection[str] | None = None) -> list[str]:
        """Return the Parquet files of a table, or of some of its parts."""
        return [
            os.path.join(directory, name)
            for directory in self._directories(table)
            if parts is None or os.path.basename(directory) in parts
            for name in sorted(os.listdir(directory))
            if name.endswith(".parquet")
        ]

    @property
    def labels(self) -> dict[str, str]:
        """By input the label of its groups [pipeline/input-identity]."""
        return {source: self.about(source).get("label", "") for source in self.inputs}

    @property
    def topic_names(self) -> dict[str, str]:
        """Names by topic id, as far as the inputs record them [pipeline/topic-ids]."""
        return topic_names_in(map(self.about, self.inputs))

    # -- writing -----------------------------------------------------------------------------------

    @property
    def has_written(self) -> bool:
        """Whether anything has been written since the last commit."""
        return bool(self._written)

    @contextmanager
    def new_parts(
        self, tables: Iterable[str], *, replace: bool = False
    ) -> Iterator[dict[str, str]]:
        """Write one part of each of some tables in a block; `commit` makes them count.

        Args:
            tables: the tables.
            replace: whether the parts replace all others even in tables that grow.

        Yields:
            By table an empty directory for Parquet files.
        """
        hidden = {table: self._hidden(table) for table in tables}
        for directory in hidden.values():
            os.makedirs(directory)
        yield hidden
        for table, directory in hidden.items():
            self._keep(table, directory, replace=replace)

    def written(self, table: str) -> dict[str, int]:
        """Return `rows` and `bytes` of the part of a table that the next commit adds."""
        (part,) = self._written[table].values()
        return dict(part)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Make a directory for temporary files of the run, which the block's end removes."""
        directory = tempfile.mkdtemp(prefix=_SCRATCH, dir=self.path)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def reading_scratch(self, *, is_shared: bool) -> Iterator[str]:
        """Make a directory for temporary files of a reader, which the block's end removes.

        Args:
            is_shared: whether workers on other machines must see it.
        """
        parent = self.path if is_shared else None
        directory = tempfile.mkdtemp(prefix=_READING, dir=parent)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def commit(
        self,
        positions: Positions,
        report: Mapping[str, Any],
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make everything that was written since the last commit count, in one step.

        Args:
            positions: the next offsets of the inputs; others keep theirs.
            report: the entry of the run for the manifest.
            about: by input what to store about it.
        """
        manifest = {
            **self._manifest,
            "tables": dict(self._manifest["tables"]),
            "inputs": copy.deepcopy(self._manifest["inputs"]),
        }
        replaced: list[str] = []
        for table, part in self._written.items():
            before = manifest["tables"].get(table, {})
            if table in self._added:
                part = {**before, **part}
            else:
                replaced += [os.path.join(self.path, table, name) for name in before]
            manifest["tables"][table] = part
        for source, topics in positions.items():
            known = manifest["inputs"].setdefault(source, {"about": {}, "next_offsets": {}})
            for topic, offsets in topics.items():
                known["next_offsets"].setdefault(topic, {}).update(
                    {str(partition): offset for partition, offset in offsets.items()}
                )
        for source, stored in (about or {}).items():
            known = manifest["inputs"].setdefault(source, {"about": {}, "next_offsets": {}})
            known["about"] = dict(stored)
        manifest["runs"] = [*manifest["runs"], dict(report)][-_REMEMBERED_RUNS:]
        manifest["next_run"] += 1
        _replace(os.path.join(self.path, MANIFEST), _as_text(manifest))
        self._manifest = manifest
        self._written = {}
        self._added = set()
        for directory in replaced:
            shutil.rmtree(directory, ignore_errors=True)

    # -- inside ------------------------------------------------------------------------------------

    def _parts(self, table: str) -> dict[str, Any]:
        parts: dict[str, Any] = self._manifest["tables"].get(table, {})
        return parts

    def _directories(self, table: str) -> list[str]:
        """Return the directories of a table's parts, including those of the current run."""
        names = list(self._parts(table))
        if table in self._written:
            new = list(self._written[table])
            names = names + new if table in self._added else new
        return [os.path.join(self.path, table, name) for name in names]

    def _hidden(self, table: str) -> str:
        """Return the directory, which does not exist, for writing the next part of a table."""
        hidden = os.path.join(self.path, table, f".{self._part_name()}")
        shutil.rmtree(hidden, ignore_errors=True)
        return hidden

    def _keep(self, table: str, hidden: str, *, replace: bool) -> dict[str, int]:
        """Include a written part in the next commit."""
        part = self._place(table, hidden, self._part_name())
        if TABLES[table].grows and not replace:
            self._added.add(table)
        return part

    def _place(self, table: str, hidden: str, name: str) -> dict[str, int]:
        """Give a written part its name, and return its `rows` and `bytes`."""
        self._remove_spark_files(hidden)
        directory = os.path.join(self.path, table, name)
        # The manifest must not name a file that a power failure could take away.
        for each in os.listdir(hidden):
            sync(os.path.join(hidden, each))
        sync(hidden)
        os.rename(hidden, directory)
        sync(os.path.join(self.path, table))
        part = measured(directory)
        self._written[table] = {name: part}
        return part

    def _part_name(self) -> str:
        return f"{_PART}{self._manifest['next_run']:06d}"

    def _remove_leftovers(self) -> None:
        """Remove the parts and the temporary files of runs that did not commit."""
        for name in os.listdir(self.path):
            path = os.path.join(self.path, name)
            if name.startswith(_SCRATCH) or (
                name.startswith(_READING) and time.time() - os.stat(path).st_mtime > _READING_S
            ):
                shutil.rmtree(path, ignore_errors=True)
        for table in TABLES:
            directory = os.path.join(self.path, table)
            known = self._parts(table)
            names = os.listdir(directory) if os.path.isdir(directory) else []
            for name in names:
                if name not in known and name.lstrip(".").startswith(_PART):
                    shutil.rmtree(os.path.join(directory, name), ignore_errors=True)

    def _remove_spark_files(self, directory: str) -> None:
        """Remove the files that Spark writes beside the data: success marks and checksums."""
        for name in os.listdir(directory):
            if not name.endswith(".parquet") or name.startswith("."):
                os.remove(os.path.join(directory, name))


def topic_names_in(abouts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return names by topic id from what was stored about some inputs."""
    return {
        topic_id: name for about in abouts for topic_id, name in about.get("topics", {}).items()
    }


def measured(directory: str) -> dict[str, int]:
    """Return rows and bytes of the Parquet files in a directory, from their footers."""
    import pyarrow.parquet as pq

    rows = size_bytes = 0
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        rows += pq.read_metadata(path).num_rows
        size_bytes += os.path.getsize(path)
    return {"rows": rows, "bytes": size_bytes}


def _read_manifest(path: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            manifest: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}/{MANIFEST} cannot be read: {error}") from None
    if manifest.get("version") != _VERSION:
        raise StoreError(
            f"{path}/{MANIFEST} has version {manifest.get('version')}, but this release uses"
            f" version {_VERSION}: give another --output, or use the release that wrote it"
        )
    return manifest


def _check_empty(path: str) -> None:
    """Refuse a directory with other files, because tables are written and removed in it."""
    others = [name for name in os.listdir(path) if name not in (_LOCK, MANIFEST + _NEW)]
    if others:
        raise StoreError(
            f"{path} contains other files ({', '.join(sorted(others)[:3])}) and no {MANIFEST}: give"
            " an empty or new directory as --output"
        )


def _as_text(manifest: Mapping[str, Any]) -> str:
    """Return JSON with a line for each run, input and table.

    Every append of a follower writes all 200 runs. With `indent` that would take 100 ms.
    """
    members = []
    for name, value in manifest.items():
        if isinstance(value, dict) and value:
            entries = (f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items())
            text = "{\n  " + ",\n  ".join(entries) + "\n }"
        elif isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        else:
            text = json.dumps(value)
        members.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _replace(path: str, text: str) -> None:
    new = path + _NEW
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    sync(os.path.dirname(path))


def sync(path: str) -> None:
    """Make a file or directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
