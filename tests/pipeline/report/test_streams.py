"""A streams group (KIP-1071) on the terminal, on the page, in findings, checks and a replay, from
the logs of our coordinator; test_epochs.py has it in the tables of both engines.

Rules: [pipeline/streams-tasks] [report/epochs].
"""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.cli.main import main
from coterie.lab.errors import WrongInput
from coterie.lab.recorded import read_recorded
from coterie.pipeline.check_rules import ERROR, WARNING
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.replay import replay_groups
from coterie.pipeline.jobs.run import run
from coterie.pipeline.report.data import page_data
from coterie.pipeline.report.lanes import in_lanes
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from coterie.pipeline.timeline.model import STREAMS
from coterie.pipeline.what_if import NOT_REPLAYED
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.streams_group_records import (
    CurrentTasks,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from tests.pipeline.jobs.test_check_epochs import plant
from tests.pipeline.test_engines import rows_of
from tests.pipeline.timeline.test_streams_stories import held_back

PRINTED = """\
22:14:20.000  ▷ epoch 3 → 5               beat c c joined, client beat c at 127.0.0.1
              took 1 min 19 s, 1 epoch not reached before the next, recorded in the journal
              tasks without an owner: 1 min 37 s in total; 4 of 6 tasks moved
              + beat c c  - beat a a
              epoch 5 after 1 min 5 s: beat a a did not give tasks up in time
              0: task 2: beat a a to beat c c, given up after 1 min 5 s (revocation timeout), taken
                over 9.00 s later
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data directory, with a commit of the owner of a task, and one of nobody."""
    story = held_back()
    for topic, partition in (("in", 1), ("in", 9)):
        plant(
            story,
            OffsetCommitKey(group="g", topic=topic, partition=partition),
            OffsetCommitValue(offset=7, metadata="", commit_timestamp=story.now_ms),
        )
    return story.write(tmp_path_factory.mktemp("streams") / "data")


@pytest.fixture(scope="module")
def output(data: str) -> str:
    """What a run made of it."""
    path = str(Path(data).parent / "out")
    run(LocalEngine(), [data], path)
    return path


def test_terminal_says_how_long_members_took(data: str, output: str) -> None:
    shown = [CliRunner().invoke(main, ["pipeline", "show", path, "g"]) for path in (data, output)]
    assert [each.exit_code for each in shown] == [0, 0]
    assert PRINTED in shown[0].stdout
    assert shown[0].stdout == shown[1].stdout


def test_commits_are_compared_with_the_owners_of_tasks(output: str) -> None:
    """No task reads partition 9. [pipeline/zombie-commit]"""
    rows = [row for row in rows_of(output, "anomalies") if row["group_id"] == "g"]
    assert {row["rule"]: row["subject"] for row in rows} == {
        "max_poll_exceeded": "beat a at 127.0.0.1",
        "zombie_commit": "in-9",
    }


def test_only_commits_of_partitions_that_no_task_reads_are_reported(output: str) -> None:
    """[pipeline/checks]"""
    found = [(each.rule, each.severity) for each in check(LocalEngine(), Store.reading(output))]
    assert found == [("commits_of_owned_partitions", WARNING)]


def test_task_with_two_owners_breaks_a_rule(tmp_path: Path) -> None:
    """[pipeline/checks]"""
    story = held_back()
    plant(
        story,
        StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="d"),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=6,
            state=1,
            active_tasks=[CurrentTasks(subtopology_id="0", partitions=[3])],
            standby_tasks=[CurrentTasks(subtopology_id="0", partitions=[4])],
            warmup_tasks=[],
            active_tasks_pending_revocation=[],
            standby_tasks_pending_revocation=[],
            warmup_tasks_pending_revocation=[],
        ),
    )
    output = str(tmp_path / "out")
    run(LocalEngine(), [story.write(tmp_path / "data")], output)
    (found,) = check(LocalEngine(), Store.reading(output))
    assert (found.rule, found.severity) == ("one_owner_of_an_epoch", ERROR)
    assert found.detail.startswith("0-3 was given to d at epoch 6")


def test_replays_say_what_they_do_not_do(data: str, output: str) -> None:
    """[pipeline/what-if]"""
    found = replay_groups(LocalEngine(), Store.reading(output), "sticky", groups=["g"])
    (row,) = found.to_pylist()
    assert (row["rebalances"], row["left_out"], row["problem"]) == ([], 4, NOT_REPLAYED[STREAMS])
    with pytest.raises(WrongInput, match="is a streams group"):
        read_recorded(data, "g", {})


def test_page_has_a_lane_for_each_task_and_copy(output: str) -> None:
    """[report/epochs]"""
    shown = page_data(read_content(Store.reading(output)))
    (group,) = [each for each in shown["groups"] if each["id"] == "g"]
    assert group["tasks"]
    # While `b` has yet to give its copy up, `c` has one.
    assert group["lanes"][:4] == ["0_0", "0_0 standby", "0_0 standby 2", "0_1"]
    assert "0_2" in {row[0] for row in group["handovers"]}
    # Offsets are those of partitions, moves those of tasks.
    assert [row[:2] for row in group["partitions"]] == [["in-1", 7], ["in-9", 7]]
    assert "0_2" in {row[0] for row in group["taskMoves"]}


def owned(
    topic: str, role: str | None, begin: int, end: int | None, member: str = "m"
) -> dict[str, Any]:
    return {
        "topic": topic, "partition": 1, "role": role, "from_ts": begin, "to_ts": end,
        "member_key": member,
    }  # fmt: skip


def test_copies_of_one_task_have_lanes_of_their_own() -> None:
    rows = [
        owned("10", "active", 0, None),
        owned("2", "standby", 0, 5),
        owned("2", "standby", 1, None),
        owned("2", "standby", 5, None),
        owned("2", "warm-up", 6, 7),
        owned("2", "active", 6, 7),
    ]
    found = {lane.text: len(bars) for lane, bars in sorted(in_lanes(rows).items())}
    assert found == {
        "2_1": 1, "2_1 standby": 2, "2_1 standby 2": 1, "2_1 warm-up": 1, "10_1": 1,
    }  # fmt: skip
    assert [each.text for each in in_lanes([owned("orders", None, 0, None)])] == ["orders-1"]


def test_readers_of_one_partition_have_lanes_of_their_own() -> None:
    rows = [
        owned("jobs", None, 0, 5, "one"),
        owned("jobs", None, 1, 5, "two"),
        owned("jobs", None, 5, None, "two"),
        owned("jobs", None, 5, 9, "one"),
        owned("jobs", None, 9, None, "three"),
    ]
    found = in_lanes(rows, are_shared=True)
    members = {lane.text: [each["member_key"] for each in bars] for lane, bars in found.items()}
    assert members == {"jobs-1": ["one", "one", "three"], "jobs-1 reader 2": ["two", "two"]}
