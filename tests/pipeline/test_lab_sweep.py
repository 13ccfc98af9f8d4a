"""Sweeps of the lab on engines of the pipeline: the same rows as with processes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.grid import plan_of
from coterie.lab.store import Store
from coterie.lab.sweep import run_sweep
from coterie.lab.sweep_on_spark import run_sweep_on_spark
from coterie.pipeline.engine import Engine, LocalEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = plan_of(("three-and-one",), ("eager-3", "cooperative"), None, "0..2", ())
DONE: list[tuple[int, int]] = []


def note_progress(done: int, total: int, _left_s: float) -> None:
    """Keep what is shown."""
    DONE.append((done, total))


def swept(directory: Path, engine: Engine | None) -> Store:
    """Run the sweep, with an engine or in this process."""
    store = Store(str(directory))
    store.begin(PLAN.text())
    if engine is None:
        assert run_sweep(PLAN, store, 1, note_progress) == []
    else:
        assert run_sweep_on_spark(PLAN, store, engine, 2, note_progress) == []
    return store


def rows(store: Store) -> list[dict[str, Any]]:
    """Return the rows without what depends on the machine that made them."""
    found = [{**row, "wall_ms": None} for row in store.runs()]
    return sorted(found, key=lambda row: (row["machine"], row["seed"]))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the rows that a sweep without an engine makes."""
    return rows(swept(tmp_path_factory.mktemp("expected") / "sweep", None))


def test_engine_makes_the_same_rows(expected: list[dict[str, Any]], tmp_path: Path) -> None:
    DONE.clear()
    store = swept(tmp_path / "sweep", LocalEngine())
    assert rows(store) == expected
    assert {row["seed"] for row in store.timelines()} == {0}
    assert DONE[0] == (0, 6), "each run is a task of its own, if there are few"


def test_engine_makes_only_what_is_missing(expected: list[dict[str, Any]], tmp_path: Path) -> None:
    store = swept(tmp_path / "sweep", LocalEngine())
    before = sorted((tmp_path / "sweep" / "runs").iterdir())
    before[0].unlink()
    swept(tmp_path / "sweep", LocalEngine())
    assert rows(store) == expected
    assert len(list((tmp_path / "sweep" / "runs").iterdir())) == len(before)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_spark_makes_the_same_rows(
    expected: list[dict[str, Any]], spark: "SparkSession", tmp_path: Path
) -> None:
    from coterie.pipeline.spark_engine import SparkEngine

    assert rows(swept(tmp_path / "sweep", SparkEngine(spark))) == expected
