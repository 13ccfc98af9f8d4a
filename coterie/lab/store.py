"""The directory of a sweep: its plan, and Parquet files with the rows and the timelines.

    sweep.json                   the plan, by which the directory is recognised
    runs/part-ID.parquet         a row for each run
    timeline/part-ID.parquet     for one seed the reader, or the cause of a gap, over time
    summary.parquet              for each group of seeds and each metric the median and its range

A file is written under another name first, so an interrupted sweep leaves whole files only.
"""

import json
import os
import uuid
from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput
from coterie.lab.gaps import CAUSES
from coterie.lab.outcome import METRICS, RunOutcome

_PLAN = "sweep.json"


class Key(NamedTuple):
    """A run of a sweep; `settings` are pairs, sorted by name."""

    scenario: str
    machine: str
    members: int
    partitions: int
    seed: int
    settings: tuple[tuple[str, str], ...]


def key_of(row: dict[str, Any]) -> Key:
    """Return the key of a row."""
    settings = tuple(sorted((str(name), str(value)) for name, value in row["settings"] or ()))
    return Key(
        row["scenario"], row["machine"], row["members"], row["partitions"], row["seed"], settings
    )


def columns_of(outcome: RunOutcome) -> dict[str, Any]:
    """Return what a run came to, as columns of its row."""
    return {
        **{name: outcome.metrics[name] for name in METRICS},
        "causes": outcome.causes,
        "requests_by_api": list(outcome.apis.items()),
        "bytes_by_api": list(outcome.api_bytes.items()),
        "window_s": outcome.window_s,
        "digest": outcome.digest,
        "script": outcome.script,
    }


class Store:
    """The directory of a sweep."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    # -- the plan ----------------------------------------------------------------------------------

    def begin(self, plan: str) -> None:
        """Begin or continue a sweep.

        Raises:
            WrongInput: the directory has another sweep or something else, or can't be written.
        """
        try:
            os.makedirs(self.directory, exist_ok=True)
            if os.listdir(self.directory):
                self._check_plan(plan)
                return
            for folder in ("runs", "timeline"):
                os.mkdir(os.path.join(self.directory, folder))
            self._write_text(_PLAN, plan)
        except OSError as error:
            raise WrongInput(
                f"The directory {self.directory} can't be used: {error.strerror}."
            ) from None

    def _check_plan(self, plan: str) -> None:
        there = self.plan_text()
        if json.loads(there) != json.loads(plan):
            raise WrongInput(
                f"{self.directory} has another sweep, or one of another version:"
                " choose another directory, or give the same options again."
            )

    def plan_text(self) -> str:
        """Return the plan.

        Raises:
            WrongInput: the directory has no sweep.
        """
        try:
            with open(os.path.join(self.directory, _PLAN), encoding="utf-8") as file:
                return file.read()
        except OSError:
            raise WrongInput(
                f"{self.directory} is not the directory of a sweep: `coterie lab sweep --output`"
                " makes one."
            ) from None

    def _write_text(self, name: str, text: str) -> None:
        path = os.path.join(self.directory, name)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)

    # -- rows --------------------------------------------------------------------------------------

    def add(self, rows: list[dict[str, Any]], timeline: list[dict[str, Any]]) -> None:
        """Add rows. Timelines are written first: a run counts once its row is there."""
        if timeline:
            self._write(_part("timeline"), timeline, _timeline_schema())
        if rows:
            self._write(_part("runs"), rows, _run_schema())

    def _write(self, name: str, rows: list[dict[str, Any]], schema: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = os.path.join(self.directory, name)
        table = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(table, f"{path}.new", compression="zstd")
        os.replace(f"{path}.new", path)

    def _parts(self, folder: str) -> list[str]:
        directory = os.path.join(self.directory, folder)
        try:
            names = os.listdir(directory)
        except OSError:
            return []
        return sorted(os.path.join(directory, name) for name in names if name.endswith(".parquet"))

    def _read(self, folder: str) -> list[dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = []
        for path in self._parts(folder):
            try:
                rows += pq.read_table(path).to_pylist()
            except (OSError, pa.ArrowInvalid) as error:
                raise WrongInput(f"{path} can't be read: {error}") from None
        return rows

    def runs(self) -> list[dict[str, Any]]:
        """Return the rows of all runs that have broken no invariant.

        Raises:
            WrongInput: the directory has no sweep, or a file can't be read.
        """
        self.plan_text()
        return [row for row in self._read("runs") if row["violation"] is None]

    def keys(self) -> set[Key]:
        """Return the keys of the runs that are done."""
        return {key_of(row) for row in self._read("runs")}

    def violations(self) -> list[str]:
        """Return what the runs of the sweep have violated."""
        return [
            f"{row['scenario']} {row['machine']} seed {row['seed']}: {row['violation']}"
            for row in self._read("runs")
            if row["violation"] is not None
        ]

    def timelines(self) -> list[dict[str, Any]]:
        """Return the rows of the timelines."""
        return self._read("timeline")

    def write_summary(self, rows: list[dict[str, Any]]) -> None:
        """Write the summary."""
        self._write("summary.parquet", rows, _summary_schema())


def _part(folder: str) -> str:
    """Return the name of a new file; several processes may write at once."""
    return os.path.join(folder, f"part-{uuid.uuid4().hex}.parquet")


def _identity(pa: Any) -> list[tuple[str, Any]]:
    return [
        ("scenario", pa.string()),
        ("machine", pa.string()),
        ("members", pa.int32()),
        ("partitions", pa.int32()),
        ("settings", pa.map_(pa.string(), pa.string())),
    ]


def _run_schema() -> Any:
    import pyarrow as pa

    counts = pa.map_(pa.string(), pa.int64())
    return pa.schema(
        [
            *_identity(pa),
            ("seed", pa.int32()),
            ("evidence", pa.string()),
            ("code_version", pa.string()),
            ("violation", pa.string()),
            *((name, pa.float64()) for name in METRICS),
            ("causes", pa.struct([(cause, pa.float64()) for cause in CAUSES])),
            ("requests_by_api", counts),
            ("bytes_by_api", counts),
            ("window_s", pa.float64()),
            ("digest", pa.string()),
            ("script", pa.string()),
            ("wall_ms", pa.float64()),
        ]
    )


def _timeline_schema() -> Any:
    import pyarrow as pa

    # `partition` is the number in the workload.
    return pa.schema(
        [
            *_identity(pa),
            ("seed", pa.int32()),
            ("partition", pa.int32()),
            ("from_us", pa.int64()),
            ("to_us", pa.int64()),
            ("owner", pa.string()),
            ("cause", pa.string()),
        ]
    )


def _summary_schema() -> Any:
    import pyarrow as pa

    numbers = [(name, pa.float64()) for name in ("median", "p05", "p95")]
    return pa.schema([*_identity(pa), ("metric", pa.string()), *numbers, ("runs", pa.int32())])
