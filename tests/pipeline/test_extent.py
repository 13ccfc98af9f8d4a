"""Whether there is little work is decided before Spark is started."""

import os
from pathlib import Path

import pytest

from coterie.pipeline import extent
from coterie.pipeline.extent import is_little


def _log(path: Path, size_bytes: int) -> str:
    directory = path / "__consumer_offsets-0"
    directory.mkdir(parents=True)
    with open(directory / f"{0:020d}.log", "wb") as file:
        file.truncate(size_bytes)
    return str(path)


def test_small_log_is_little_and_large_log_is_not(tmp_path: Path) -> None:
    small, large = _log(tmp_path / "small", 1 << 20), _log(tmp_path / "large", 65 << 20)
    output = str(tmp_path / "out")
    assert is_little(output, [small])
    assert not is_little(output, [large])
    assert not is_little(output, [small, large])


def test_input_of_unknown_size_is_not_little(tmp_path: Path) -> None:
    assert not is_little(str(tmp_path), ["kafka://localhost:9092"])


def test_size_of_tables_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.pipeline.store import Store

    output = str(tmp_path / "out")
    with Store.open(output) as store:
        with store.new_parts(["log_ends"]) as directories:
            _write_file(directories["log_ends"])
        store.commit({}, {"run": 0})
    assert is_little(output)
    monkeypatch.setattr(extent, "LOCAL_TABLE_BYTES", 100)
    assert not is_little(output)


def _write_file(directory: str) -> None:
    import pyarrow.parquet as pq

    from coterie.pipeline.tables import TABLES

    path = os.path.join(directory, "rows.parquet")
    pq.write_table(TABLES["log_ends"].schema.empty_table(), path)
