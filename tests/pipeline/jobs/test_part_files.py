"""Files of workers: those of an attempt that did not finish do not count [pipeline/manifest]."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.pipeline.tables import TABLES

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline import part_files
from coterie.pipeline.part_files import PartFiles, Share, keep_finished, read_files, shares

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
    (path,) = files.close()
    assert os.path.dirname(path) == str(tmp_path)
    assert pq.read_table(path).column("partition").to_pylist() == [3, 1, 2]


def test_failed_attempt_of_a_task_leaves_no_file(tmp_path: Path) -> None:
    directories = {name: str(tmp_path / name) for name in ("log_ends", "quarantine")}
    for each in directories.values():
        os.mkdir(each)
    finished = []
    for number in (0, 1, 1, 2):
        files = PartFiles(directories)
        files.write("log_ends", _ends(number))
        finished.append(files.close())
    # The first attempt of task 1 wrote its file, and failed then.
    keep_finished(directories, [finished[0], *finished[2:]])
    found = pq.read_table(directories["log_ends"])
    assert sorted(found.column("partition").to_pylist()) == [0, 1, 2]
    assert len(os.listdir(directories["log_ends"])) == 3
    empty = pq.read_table(directories["quarantine"])
    assert empty.num_rows == 0
    assert empty.column_names == TABLES["quarantine"].schema.names


def test_small_files_share_a_task_and_a_large_one_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "_TASK_ROWS", 10)
    monkeypatch.setattr(part_files, "_FILE_ROWS", 4)
    paths = [str(tmp_path / name) for name in ("a", "b", "c", "d", "empty")]
    for path, count in zip(paths, (4, 1, 5, 25, 0), strict=True):
        pq.write_table(pa.table({"x": list(range(count))}), path, row_group_size=10)
    a, b, c, d, _ = paths
    assert shares(paths) == [
        [Share(a, [0]), Share(b, [0])],
        [Share(c, [0])],
        [Share(d, [0])],
        [Share(d, [1])],
        [Share(d, [2])],
    ]
    assert shares([]) == []


def test_column_that_an_old_file_lacks_is_null(tmp_path: Path) -> None:
    path = str(tmp_path / "old.parquet")
    pq.write_table(pa.Table.from_batches([_ends(1)]).drop_columns(["input"]), path)
    (row,) = read_files([path], _SCHEMA).to_pylist()
    assert (row["input"], row["topic"], row["partition"]) == (None, "a", 1)
