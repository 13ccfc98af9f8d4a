"""Tasks of decoding: small files share a task, in their order; large files have their own."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.jobs import ingest
from coterie.pipeline.jobs.ingest import decoding_tasks


def test_small_files_share_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_DECODED_BYTES", 100)
    sizes = {"a": 40, "b": 50, "c": 20, "d": 500, "e": 1}
    for name, size_bytes in sizes.items():
        (tmp_path / name).write_bytes(bytes(size_bytes))
    tasks = decoding_tasks(str(tmp_path / name) for name in sizes)
    assert [[Path(each).name for each in task] for task in tasks] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e"],
    ]


def test_without_files_there_are_no_tasks() -> None:
    assert decoding_tasks([]) == []
