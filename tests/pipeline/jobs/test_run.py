"""Runs: the tables of a directory, a second run, a run after compaction, a killed run.

Rules: [pipeline/input-identity], [pipeline/shorter-log], [pipeline/manifest].
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs import inputs
from coterie.pipeline.jobs.decode import decode
from coterie.pipeline.jobs.ingest import ingest
from coterie.pipeline.jobs.job import Job, RunReport, WritingStep
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import MANIFEST, Store
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import GroupHistory
from coterie.pipeline.transforms import histories
from tests.pipeline.jobs.written import NOW_MS, Directory, table
from tests.pipeline.timeline.facts import began, completed, join_done, joined, member_of

COMMITS = ("group_id", "topic", "partition", "committed_offset")


def decoded(paths: list[str], output: str) -> RunReport:
    """Run without building gold."""
    with Store.open(output) as store, store.scratch() as scratch:
        planned = inputs.plan(store, paths)
        job = Job(LocalEngine(), store, scratch, about=planned.about)
        ingest(job, planned)
        decode(job)
        return job.finish(planned.positions)


def rows_of(report: RunReport) -> dict[str, int | None]:
    return {step.table: step.rows for step in report.steps}


def orders(path: Path) -> Directory:
    """Write a group in log and journal that one member joined, then another, and that commits."""
    data = Directory(path, "cluster-1")
    data.generation("orders", 1, NOW_MS + 10, one="a-0 a-1")
    data.commit("orders", "a-0", 5, NOW_MS + 20)
    data.commit("orders", "a-1", 7, NOW_MS + 30)
    data.commit("orders", "a-1", 9, NOW_MS + 70_000)
    data.generation("orders", 2, NOW_MS + 80_000, one="a-0", two="a-1")
    data.facts(
        "orders",
        joined(NOW_MS, "one"),
        began(NOW_MS, "join", "one", 0, state="Empty"),
        join_done(NOW_MS + 5, 1, NOW_MS),
        completed(NOW_MS + 10, 1, NOW_MS, member_of("one", "a-0 a-1")),
        joined(NOW_MS + 79_000, "two"),
        began(NOW_MS + 79_000, "join", "two", 1),
        join_done(NOW_MS + 79_990, 2, NOW_MS + 79_000),
        completed(
            NOW_MS + 80_000, 2, NOW_MS + 79_000,
            member_of("one", "a-0", after=900), member_of("two", "a-1"),
        ),
    )  # fmt: skip
    # A group without journal, as of a real Kafka.
    data.generation("bills", 4, NOW_MS, topics="b", x="b-0")
    data.generation("bills", 6, NOW_MS + 60_000, topics="b", y="b-0")
    return data


def test_run_builds_all_tables_and_a_second_run_adds_nothing(tmp_path: Path) -> None:
    data, output = orders(tmp_path / "data").write(), str(tmp_path / "out")
    steps: list[WritingStep] = []
    report = run(LocalEngine(), [data], output, progress=steps.append)
    assert report.number == 0
    assert (rows_of(report)["log_records"], rows_of(report)["journal_records"]) == (7, 8)
    assert {step.total for step in steps} >= {len(report.steps)}
    assert table(output, "rebalances", "group_id", "trigger", "trigger_member_key", "evidence") == [
        ("bills", "join", "x", "log"),
        ("bills", "members changed", None, "inferred"),
        ("orders", "join", "one", "journal"),
        ("orders", "join", "two", "journal"),
    ]
    moved = table(
        output, "partition_moves", "group_id", "partition", "from_member_key", "to_member_key",
        "committed_at_handover", "gap_ms",
    )  # fmt: skip
    assert ("orders", 1, "one", "two", 9, 100) in moved
    assert ("orders", 0, None, "one", None, None) in moved
    assert table(
        output, "commit_velocity_1m", "partition", "commits", "advance", "last_offset"
    ) == [
        (0, 1, 0, 5),
        (1, 1, 0, 7),
        (1, 1, 2, 9),
    ]
    assert table(output, "lag_1m", "committed_offset", "lag", "stalled") == [
        (5, None, None),
        (7, None, None),
        (9, None, None),
    ]
    facts = table(output, "group_events", "log_offset", "fact", "cause", "member_key", "detail")
    assert facts[1][:4] == (1, "rebalance_began", "join", "one")
    assert json.loads(facts[1][4])["previous_state"] == "Empty"
    assert table(output, "log_health", "input", "records", "keys", "tombstones", "batches")
    before = Path(output, MANIFEST).read_bytes()
    again = run(LocalEngine(), [data], output)
    assert (again.number, again.steps) == (None, [])
    assert Path(output, MANIFEST).read_bytes() == before


def test_run_after_compaction_adds_new_records_and_keeps_removed_ones(tmp_path: Path) -> None:
    data, output = orders(tmp_path / "data"), str(tmp_path / "out")
    data.write()
    decoded([str(data.path)], output)
    data.commit("orders", "a-1", 12, NOW_MS + 90_000)
    data.generation("orders", 3, NOW_MS + 95_000, one="a-0 a-1")
    data.compact()
    data.write()
    report = decoded([str(data.path)], output)
    assert rows_of(report)["log_records"] == 2
    assert table(output, "group_generations", "group_id", "generation", "is_rewrite") == [
        ("bills", 4, False),
        ("bills", 6, False),
        ("orders", 1, False),
        ("orders", 2, False),
        ("orders", 3, False),
    ]
    assert [row[3] for row in table(output, "offset_commits", *COMMITS)] == [5, 12, 7, 9]
    assert len(Store.reading(output).parts("offset_commits")) == 2


def test_killed_run_has_no_effect_and_the_next_one_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, output = orders(tmp_path / "data").write(), str(tmp_path / "out")

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Store, "commit", killed)
        with pytest.raises(Killed):
            decoded([data], output)
    assert list(Path(output, "offset_commits").glob("part=*/*.parquet"))
    assert table(output, "offset_commits", *COMMITS) == []
    report = decoded([data], output)
    assert report.number == 0
    assert len(list(Path(output, "offset_commits").glob("part=*"))) == 1
    assert len(table(output, "offset_commits", *COMMITS)) == 3


def test_commits_of_a_transaction_count_from_the_run_that_reads_its_marker(tmp_path: Path) -> None:
    """[group-log/transactions]"""
    data, output = Directory(tmp_path / "data", log_partitions=1), str(tmp_path / "out")
    data.commit("g", "a-0", 1, NOW_MS)
    data.commit("g", "a-1", 10, NOW_MS, producer=7)
    data.commit("g", "a-2", 20, NOW_MS, producer=8)
    data.marker("g", 8, NOW_MS, commit=False)
    data.write()
    decoded([str(data.path)], output)
    assert table(output, "offset_commits", "partition", "committed_offset") == [(0, 1)]
    data.marker("g", 7, NOW_MS + 1, commit=True)
    data.commit("g", "a-2", 21, NOW_MS + 2, producer=8)
    data.write()
    decoded([str(data.path)], output)
    assert table(output, "offset_commits", "partition", "committed_offset") == [(0, 1), (1, 10)]


def test_clusters_are_separate_inputs_and_directories_of_one_cluster_are_one_input(
    tmp_path: Path,
) -> None:
    """[pipeline/input-identity]"""
    first = Directory(tmp_path / "east", "cluster-1", 1)
    behind = Directory(tmp_path / "east-2", "cluster-1", 1)
    other = Directory(tmp_path / "west", "cluster-2", 1)
    for data in (first, behind, other):
        data.commit("g", "a-0", 1, NOW_MS)
    first.commit("g", "a-0", 2, NOW_MS + 1)
    other.commit("g", "a-0", 900, NOW_MS + 1)
    paths = [data.write() for data in (behind, first, other)]
    output = str(tmp_path / "out")
    decoded(paths, output)
    assert table(output, "offset_commits", *COMMITS) == [
        ("g", "a", 0, 1),
        ("g", "a", 0, 2),
        ("g@west", "a", 0, 1),
        ("g@west", "a", 0, 900),
    ]
    store = Store.reading(output)
    assert store.inputs == ["cluster-1", "cluster-2"]
    assert store.position("cluster-1") == store.position("cluster-2") == {0: 2}
    # A directory that was moved is the same input. One that lost its end gives a warning.
    moved = (tmp_path / "west").rename(tmp_path / "elsewhere")
    assert inputs.plan(store, [str(moved)]).new == []
    first.logs["__consumer_offsets-0"].pop()
    first.write()
    (tmp_path / "east-2").rename(tmp_path / "gone")
    planned = inputs.plan(store, [paths[1]])
    assert planned.new == []
    assert "ends at offset 1, but was read to 2" in planned.warnings[0]


def test_error_in_one_group_is_its_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[pipeline/journal-then-log]"""
    data, output = orders(tmp_path / "data").write(), str(tmp_path / "out")

    def history_of(group_id: str, *given: Any) -> GroupHistory:
        if group_id == "bills":
            raise ValueError("a generation without end")
        return group_history(group_id, *given)

    monkeypatch.setattr(histories, "group_history", history_of)
    run(LocalEngine(), [data], output)
    assert {group for (group,) in table(output, "rebalances", "group_id")} == {"orders"}
    ((rule, group, evidence),) = table(output, "anomalies", "rule", "group_id", "evidence")
    assert (rule, group) == ("unreadable_history", "bills")
    assert "ValueError: a generation without end" in evidence


def test_files_are_synced_before_the_manifest_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[pipeline/manifest]"""
    data, output = orders(tmp_path / "data").write(), tmp_path / "out"
    synced: set[int] = set()
    unsynced: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def check_and_replace(source: str, target: str) -> None:
        for path in output.glob("*/part=*/*.parquet"):
            needed = (path, path.parent, path.parent.parent)
            unsynced.extend(str(each) for each in needed if each.stat().st_ino not in synced)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", note)
        patched.setattr(os, "replace", check_and_replace)
        run(LocalEngine(), [data], str(output))
    assert list(output.glob("rebalances/part=*/*.parquet"))
    assert unsynced == []
    assert output.stat().st_ino in synced
