"""Files of workers: those of an attempt that did not finish do not count [pipeline/task-files]."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.jobs.part_files import PartFiles, write_parts

_SCHEMA = TABLES["log_ends"].schema


def _ends(*partitions: int) -> pa.RecordBatch:
    rows = [
        {"topic": "a", "partition": each, "at_ts": 0, "log_end_offset": 10} for each in partitions
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


def test_rows_of_a_task_are_in_one_file_in_their_order(tmp_path: Path) -> None:
    files = PartFiles({"log_ends": str(tmp_path)})
    files.write("log_ends", _ends(3))
    files.write("log_ends", _ends())
    files.write("log_ends", _ends(1, 2))
    ((directory, name),) = files.close()
    assert directory == str(tmp_path)
    assert pq.read_table(tmp_path / name).column("partition").to_pylist() == [3, 1, 2]


@pytest.mark.xdist_group("spark")
@pytest.mark.slow
def test_failed_attempt_of_a_task_leaves_no_file(spark: "SparkSession", tmp_path: Path) -> None:
    directories = {name: str(tmp_path / name) for name in ("log_ends", "quarantine")}
    for each in directories.values():
        os.mkdir(each)
    rows = {number: _ends(number) for number in range(3)}

    def work(number: int, files: PartFiles) -> None:
        if number == 1:
            # An attempt that wrote something and failed.
            failed = PartFiles(directories)
            failed.write("log_ends", rows[number])
            list(failed.close())
        files.write("log_ends", rows[number])

    write_parts(spark, directories, 3, work)
    found = pq.read_table(directories["log_ends"])
    assert sorted(found.column("partition").to_pylist()) == [0, 1, 2]
    assert len(os.listdir(directories["log_ends"])) == 3
    empty = pq.read_table(directories["quarantine"])
    assert empty.num_rows == 0
    assert empty.column_names == TABLES["quarantine"].schema.names
