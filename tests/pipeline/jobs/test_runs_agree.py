"""The first run, later runs, a rebuild, and `show` on the data directory have the same answers.

The directory is that of a real Kafka 4.3.1, with classic groups and one of KIP-848. Earlier states
of it are made by cutting its logs at a time, as a run would have found them then.
"""

import shutil
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import pyarrow.dataset as ds

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.gold import BUILT
from coterie.pipeline.jobs.run import run
from coterie.pipeline.segments import topic_names
from coterie.pipeline.show import read_story
from coterie.pipeline.store import Store
from coterie.protocol.records import iterate_batches

KAFKA = Path(__file__).parents[2] / "golden" / "directories" / "kafka-4.3.1-killed.tar.gz"
NEW_STYLE = "new-style"
# A segment's row is of the run that has read it, so another division into runs gives other rows.
COMPARED = [name for name in BUILT if name != "log_health"]


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    with tarfile.open(KAFKA) as archive:
        archive.extractall(tmp_path / "kafka", filter="data")
    return tmp_path / "kafka"


def group_logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("__consumer_offsets-*/*.log"))


def cut(directory: Path, target: Path, until_ms: int) -> str:
    """Copy a data directory as it was at a time."""
    shutil.copytree(directory, target)
    for path in group_logs(target):
        data = path.read_bytes()
        ends = (p for p, header in iterate_batches(data) if header.max_timestamp_ms > until_ms)
        path.write_bytes(data[: next(ends, len(data))])
    return str(target)


def times_ms(directory: Path, count: int) -> list[int]:
    """Return times that divide the records of a directory into parts of equal size."""
    found = sorted(
        header.max_timestamp_ms
        for path in group_logs(directory)
        for _, header in iterate_batches(path.read_bytes())
    )
    return [found[len(found) * part // (count + 1)] for part in range(1, count + 1)]


def tables(output: str) -> dict[str, list[Any]]:
    found = {}
    for name in COMPARED:
        rows = ds.dataset(Store.reading(output).files(name), format="parquet").to_table()
        found[name] = sorted(map(repr, rows.to_pylist()))
    return found


def test_first_run_equals_rebuild_and_show_of_the_directory(kafka: Path, tmp_path: Path) -> None:
    """[pipeline/topic-ids]"""
    output = str(tmp_path / "out")
    run(LocalEngine(), [str(kafka)], output)
    first = tables(output)
    run(LocalEngine(), [str(kafka)], output)
    assert tables(output) == first
    run(LocalEngine(), [str(kafka)], output, rebuild=True)
    assert tables(output) == first
    stories = [read_story(path, NEW_STYLE, topic_names(path)) for path in (output, str(kafka))]
    topics = [
        {row["topic"] for row in story.group.tables["ownership"]} for story in stories if story
    ]
    assert topics == [{"orders"}, {"orders"}]


def test_names_of_topics_need_no_commit(kafka: Path, tmp_path: Path) -> None:
    """A group of KIP-848 that has not committed yet [pipeline/topic-ids]."""
    directory, output = cut(kafka, tmp_path / "cut", times_ms(kafka, 1)[0]), str(tmp_path / "out")
    names = topic_names(directory)
    assert "orders" in names.values()
    run(LocalEngine(), [directory], output)
    assert Store.reading(output).topic_names == names


@pytest.mark.parametrize("runs", [2, 5])
def test_runs_at_several_times_find_what_one_run_finds(
    kafka: Path, tmp_path: Path, runs: int
) -> None:
    once, often = str(tmp_path / "once"), str(tmp_path / "often")
    run(LocalEngine(), [str(kafka)], once)
    until = times_ms(kafka, runs - 1)
    assert all(earlier < later for earlier, later in pairwise(until))
    for number, until_ms in enumerate(until):
        run(LocalEngine(), [cut(kafka, tmp_path / f"cut-{number}", until_ms)], often)
    run(LocalEngine(), [str(kafka)], often)
    assert tables(often) == tables(once)
