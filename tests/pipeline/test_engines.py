"""Both engines write the same rows to every table, and either continues the other's store
[pipeline/engines].
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline import part_files
from coterie.pipeline.engine import Engine, LocalEngine
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.replay import replay_groups
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from tests.pipeline.random_logs import RandomLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")


class ScatteredEngine(LocalEngine):
    """An engine in this process that behaves like a cluster.

    It has several buckets, passes results as bytes, and makes a first attempt of every other task
    whose result is lost.
    """

    def run(self, count: int, work: Callable[[int], R]) -> list[R]:
        def do(number: int) -> bytes:
            if number % 2:
                work(number)
            return pickle.dumps(work(number))

        results: list[Any] = [pickle.loads(each) for each in super().run(count, do)]
        return results

    def buckets(self, rows: int) -> int:
        return 3


def rows_of(output: str, table: str) -> list[Any]:
    store = Store.reading(output)
    return sorted(part_files.read_table(store, table).to_pylist(), key=repr)


def assert_equal_stores(one: str, other: str) -> None:
    for table in TABLES:
        assert rows_of(one, table) == rows_of(other, table), table
    positions = [
        {source: Store.reading(path).position(source) for source in Store.reading(path).inputs}
        for path in (one, other)
    ]
    assert positions[0] == positions[1]


def written_by(engines: list[Engine], inputs: list[RandomLog], output: str, ends: str) -> str:
    """Return a store to which the engines wrote one after the other while the logs grew."""
    paths = [each.data.path for each in inputs]
    *first, last = engines
    for engine in first:
        run(engine, paths, output, log_ends=ends)
        for each in inputs:
            each.grow(25)
    run(last, paths, output, log_ends=ends)
    return output


def logs_of(path: Path, seed: int) -> list[RandomLog]:
    found = [RandomLog(path / name, seed + index, name) for index, name in enumerate("xy")]
    for each in found:
        each.grow(40)
    return found


def log_ends(path: Path) -> str:
    from tests.pipeline.jobs.written import NOW_MS

    rows = [
        {
            "input": None,
            "topic": topic,
            "partition": 1,
            "at_ts": (NOW_MS + 45_000 * number) * 1000,
            "log_end_offset": 7 * number,
        }
        for topic in "ab"
        for number in range(20)
    ]
    pq.write_table(pa.Table.from_pylist(rows, TABLES["log_ends"].schema), path)
    return str(path)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the small files of tests into several tasks."""
    monkeypatch.setattr(part_files, "_TASK_ROWS", 30)
    monkeypatch.setattr(part_files, "_FILE_ROWS", 1)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("seed", range(3))
def test_rows_do_not_depend_on_how_the_work_is_divided(tmp_path: Path, seed: int) -> None:
    ends = log_ends(tmp_path / "ends.parquet")
    engines: list[Engine] = [LocalEngine()] * 2
    together = written_by(engines, logs_of(tmp_path / "a", seed), f"{tmp_path}/1", ends)
    (tmp_path / "a").rename(tmp_path / "old")
    engines = [ScatteredEngine()] * 2
    scattered = written_by(engines, logs_of(tmp_path / "a", seed), f"{tmp_path}/2", ends)
    assert_equal_stores(together, scattered)
    assert Store.reading(together).rows("rebalances")


@pytest.mark.xdist_group("spark")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_and_this_process_write_the_same_rows_and_continue_each_other(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from coterie.pipeline.spark_engine import SparkEngine

    ends = log_ends(tmp_path / "ends.parquet")
    local, on_spark = LocalEngine(), SparkEngine(spark)
    outputs = []
    orders: list[list[Engine]] = [[local, local, local], [on_spark, local, on_spark]]
    for number, engines in enumerate(orders):
        output = str(tmp_path / f"out-{number}")
        logs = logs_of(tmp_path / "a", 77)
        outputs.append(written_by(engines, logs, output, ends))
        # The same paths for each store, because they are stored.
        (tmp_path / "a").rename(tmp_path / f"a-{number}")
    assert_equal_stores(*outputs)
    os.rename(tmp_path / "a-1", tmp_path / "a")
    store = Store.reading(outputs[0])
    assert check(local, store) == check(on_spark, store)
    replayed = [replay_groups(each, store, "sticky") for each in (local, on_spark)]
    assert replayed[0] == replayed[1]
    assert replayed[0].num_rows
