"""An output directory: tables of Parquet files, and a manifest that says which of them count.

    OUTPUT/manifest.json               versions, inputs, how far each was read, every run
    OUTPUT/<table>/part=<run>/*.parquet

A run writes its parts into hidden directories, renames them, and replaces the manifest; only then
do they count. What a killed run leaves is removed when the directory is opened next, so any reader
of Parquet that is pointed at a table finds whole files, and each row once.

Tables of single records (bronze, and silver decoded from it) grow by a part a run; the others are
worked out anew and replaced. A decoded part has the number of the run that wrote it, so bronze
parts with a higher number than the newest decoded one are those that are still to be decoded.

Invariants: one holder writes (a lock file); no name begins with an underscore (Spark would pass it
over); a table's parts are those of the manifest.
"""

import copy
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.tables import TABLES
from coterie.protocol.topic_names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# By input, topic and partition the next log offset to read.
Positions = Mapping[str, Mapping[str, Mapping[int, int]]]

MANIFEST = "manifest.json"
_LOCK = ".lock"
_NEW = ".tmp"
_VERSION = 1
_PART = "part="
# Runs that the manifest goes on telling about.
_REMEMBERED_RUNS = 200


class StoreError(Exception):
    """The directory can't be used; the text tells people why and what to do."""


class Store:
    """The tables of one output directory."""

    def __init__(self, path: str, manifest: dict[str, Any]) -> None:
        """Use `Store.open` or `Store.reading`."""
        self.path = path
        self._manifest = manifest
        self._written: dict[str, dict[str, Any]] = {}
        # Tables among them to which the part was added; in the others it stands alone.
        self._added: set[str] = set()

    @classmethod
    def reading(cls, path: str) -> "Store":
        """A directory that a run has written, to read from.

        Raises:
            StoreError: there is no manifest, or one of a later release.
        """
        manifest = _read_manifest(path)
        if manifest is None:
            raise StoreError(
                f"{path} has no {MANIFEST}: give the --output of `coterie pipeline run`, which"
                " makes it"
            )
        return cls(path, manifest)

    @classmethod
    @contextmanager
    def open(cls, path: str) -> "Iterator[Store]":
        """A directory to write to, made if it is missing, and held until the end of the block.

        Raises:
            StoreError: another run holds it, it can't be written, or it belongs to others.
        """
        try:
            os.makedirs(path, exist_ok=True)
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"{path} is in use by another run of `coterie pipeline`; wait for it, or give"
                    " another --output"
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
                # At once: a run that is killed before its commit leaves parts, and they are ours.
                _replace(os.path.join(path, MANIFEST), _as_text(manifest))
            store = cls(path, manifest)
            store._remove_leftovers()
            yield store
        finally:
            os.close(lock)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[str]:
        """What has been read, in the order of its first reading."""
        return list(self._manifest["inputs"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What each run did, the newest last."""
        return list(self._manifest["runs"])

    def about(self, source: str) -> dict[str, Any]:
        """What is known of an input: whatever was given to `commit` about it."""
        return dict(self._manifest["inputs"].get(source, {}).get("about", {}))

    @property
    def next_run(self) -> int:
        """The number of the run that is under way, or of the next one."""
        number: int = self._manifest["next_run"]
        return number

    def position(self, source: str, topic: str = OFFSETS_TOPIC) -> dict[int, int]:
        """The next log offset to read of an input's topic, by log partition."""
        stored = self._manifest["inputs"].get(source, {}).get("next_offsets", {}).get(topic, {})
        return {int(partition): offset for partition, offset in stored.items()}

    def parts(self, table: str, *, newer_than: str | None = None) -> list[str]:
        """The parts of a table, oldest first; those of the run that is under way included.

        Args:
            table: whose.
            newer_than: another table; only parts with a higher number than its newest one.
        """
        names = [os.path.basename(directory) for directory in self._directories(table)]
        if newer_than is not None:
            newest = max(self._parts(newer_than), default="")
            names = [name for name in names if name > newest]
        return names

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return sum(part["rows"] for part in self._parts(table).values())

    def files(self, table: str, parts: Collection[str] | None = None) -> list[str]:
        """The Parquet files of a table or of some of its parts, for readers other than Spark."""
        return [
            os.path.join(directory, name)
            for directory in self._directories(table)
            if parts is None or os.path.basename(directory) in parts
            for name in sorted(os.listdir(directory))
            if name.endswith(".parquet")
        ]

    def read(
        self, spark: "SparkSession", table: str, parts: Collection[str] | None = None
    ) -> "DataFrame":
        """A table, or some parts of it; empty where nothing was written yet."""
        schema = spark_schema(TABLES[table].schema)
        directories = self._directories(table)
        if parts is not None:
            directories = [each for each in directories if os.path.basename(each) in parts]
        if not directories:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*directories)

    # -- writing -----------------------------------------------------------------------------------

    @property
    def has_written(self) -> bool:
        """Whether anything was written since the last commit."""
        return bool(self._written)

    def write(self, table: str, frame: "DataFrame", *, replace: bool = False) -> dict[str, int]:
        """Write one part of a table; it counts after `commit`.

        Args:
            table: which.
            frame: its rows; columns that the table does not have are left out.
            replace: whether the part takes the place of all others in a table that grows, too.

        Returns:
            `rows` and `bytes` of the part.
        """
        hidden = self._hidden(table)
        columns = TABLES[table].schema.names
        frame.select(*columns).write.mode("overwrite").parquet(hidden)
        return self._keep(table, hidden, replace=replace)

    def write_files(
        self,
        tables: Iterable[str],
        write: Callable[[Mapping[str, str]], None],
        *,
        replace: bool = False,
    ) -> dict[str, dict[str, int]]:
        """Write one part of each of some tables; they count after `commit`.

        Args:
            tables: which.
            write: puts Parquet files into the directories that it is given by table.
            replace: as for `write`.

        Returns:
            By table `rows` and `bytes` of the part.
        """
        hidden = {table: self._hidden(table) for table in tables}
        for directory in hidden.values():
            os.makedirs(directory)
        write(hidden)
        return {
            table: self._keep(table, directory, replace=replace)
            for table, directory in hidden.items()
        }

    def commit(
        self,
        positions: Positions,
        report: Mapping[str, Any],
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Let everything written since the last commit count, all at once.

        Args:
            positions: how far each input has been read now; others stay where they are.
            report: about the run, for the manifest.
            about: by input what to remember of it.
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
        for source, told in (about or {}).items():
            known = manifest["inputs"].setdefault(source, {"about": {}, "next_offsets": {}})
            known["about"] = dict(told)
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
        """Where a table's parts are, those of the run that is under way included."""
        names = list(self._parts(table))
        if table in self._written:
            new = list(self._written[table])
            names = names + new if table in self._added else new
        return [os.path.join(self.path, table, name) for name in names]

    def _hidden(self, table: str) -> str:
        """Where the next part of a table is written before it counts; nothing is there."""
        hidden = os.path.join(self.path, table, f".{self._part_name()}")
        shutil.rmtree(hidden, ignore_errors=True)
        return hidden

    def _keep(self, table: str, hidden: str, *, replace: bool) -> dict[str, int]:
        """Let a written part count with the next commit."""
        part = self._place(table, hidden, self._part_name())
        if TABLES[table].grows and not replace:
            self._added.add(table)
        return part

    def _place(self, table: str, hidden: str, name: str) -> dict[str, int]:
        """Give a written part its name; returns its `rows` and `bytes`."""
        self._tidy(hidden)
        directory = os.path.join(self.path, table, name)
        os.rename(hidden, directory)
        part = measured(directory)
        self._written[table] = {name: part}
        return part

    def _part_name(self) -> str:
        return f"{_PART}{self._manifest['next_run']:06d}"

    def _remove_leftovers(self) -> None:
        """Remove what a run left that did not come to its commit."""
        for table in TABLES:
            directory = os.path.join(self.path, table)
            known = self._parts(table)
            names = os.listdir(directory) if os.path.isdir(directory) else []
            for name in names:
                if name not in known and name.lstrip(".").startswith(_PART):
                    shutil.rmtree(os.path.join(directory, name), ignore_errors=True)

    def _tidy(self, directory: str) -> None:
        """Remove what Spark writes beside the data: its marks of success and its checksums."""
        for name in os.listdir(directory):
            if not name.endswith(".parquet") or name.startswith("."):
                os.remove(os.path.join(directory, name))


def measured(directory: str) -> dict[str, int]:
    """Rows and bytes of the Parquet files in a directory, from their footers."""
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
        raise StoreError(f"{path}/{MANIFEST} can't be read: {error}") from None
    if manifest.get("version") != _VERSION:
        raise StoreError(
            f"{path}/{MANIFEST} is of version {manifest.get('version')}, this is version"
            f" {_VERSION}: give another --output, or use the release that wrote it"
        )
    return manifest


def _check_empty(path: str) -> None:
    """Refuse a directory with others' files: tables would be written, and removed, among them."""
    others = [name for name in os.listdir(path) if name not in (_LOCK, MANIFEST + _NEW)]
    if others:
        raise StoreError(
            f"{path} holds other files ({', '.join(sorted(others)[:3])}) and no {MANIFEST}: give a"
            " directory of its own as --output"
        )


def _as_text(manifest: Mapping[str, Any]) -> str:
    """JSON with a line for each run, input and table.

    An append to a followed directory writes 200 runs anew; `indent` would take 100 ms for that.
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
