"""Findings about consumer groups (KIP-848), from the logs of our coordinator
[pipeline/held-back].
"""

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store
from tests.pipeline.consumer_stories import ConsumerStory, Recording, orders
from tests.pipeline.streams_stories import StreamsStory
from tests.unit.coordinator.streams.harness import topology

A, B = "beat a at 127.0.0.1", "beat b at 127.0.0.1"
Found = tuple[str, ...]


def findings(story: Recording, path: Path, *, journal: bool = True) -> list[Found]:
    """Return rule, subject and evidence of the findings about the group."""
    data, output = story.write(path / "data"), str(path / "out")
    if not journal:
        (path / "data" / "coterie.journal-0" / f"{0:020d}.log").unlink()
        (path / "data" / "coterie.journal-0").rmdir()
    run(LocalEngine(), [data], output)
    rows = ds.dataset(Store.reading(output).files("anomalies")).to_table().to_pylist()
    rows.sort(key=lambda row: row["rank"])
    return [
        (row["rule"], row["subject"], row["evidence"]) for row in rows if row["group_id"] == "g"
    ]


def two_members() -> ConsumerStory:
    story = orders(4)
    story.start("a")
    story.pass_time(20)
    return story


@pytest.mark.parametrize("journal", [True, False])
def test_member_that_gives_up_late_holds_partitions_back(tmp_path: Path, journal: bool) -> None:
    story = two_members()
    story.slow.add("a")
    story.start("b")
    story.pass_time(45)
    story.slow.clear()
    story.give_up("a")
    story.pass_time(20)
    found = findings(story, tmp_path, journal=journal)
    assert found == [
        (
            "held_back_partition",
            A,
            f"kept 2 partitions (orders-2, orders-3) for 45.0 s, for which {B} waited",
        )
    ]


def test_member_that_is_asked_in_vain_still_keeps_it(tmp_path: Path) -> None:
    story = two_members()
    story.slow.add("a")
    story.start("b")
    story.pass_time(50)
    ((rule, subject, evidence),) = findings(story, tmp_path)
    assert (rule, subject) == ("held_back_partition", A)
    assert evidence.endswith("waited; it still keeps them")


def test_member_of_a_streams_group_keeps_tasks(tmp_path: Path) -> None:
    """[pipeline/streams-tasks]"""
    story = StreamsStory({"in": 4})
    story.start("a", topology=topology())
    story.pass_time(20)
    story.slow.add("a")
    story.start("b", topology=topology())
    story.pass_time(50)
    ((rule, subject, evidence),) = findings(story, tmp_path)
    assert (rule, subject) == ("held_back_partition", A)
    assert evidence.startswith("kept 2 tasks (0_2, 0_3) for 50")


def test_member_without_heartbeats_was_never_asked(tmp_path: Path) -> None:
    story = two_members()
    story.silent.add("a")
    story.start("b")
    story.pass_time(40)
    ((rule, _, evidence),) = findings(story, tmp_path)
    assert rule == "held_back_partition"
    assert "it sent no heartbeat with which it could have been asked" in evidence


@pytest.mark.parametrize("journal", [True, False])
def test_member_that_is_removed_for_it_is_one_finding(tmp_path: Path, journal: bool) -> None:
    """[pipeline/one-finding-a-cause]"""
    story = two_members()
    story.slow.add("a")
    story.start("b")
    story.pass_time(80)
    ((rule, subject, evidence),) = findings(story, tmp_path, journal=journal)
    assert (rule, subject) == ("max_poll_exceeded", A)
    assert "within max.poll.interval.ms (1 min 00 s)" in evidence


def test_member_that_died_with_what_others_wait_for_is_one_finding(tmp_path: Path) -> None:
    """[pipeline/one-finding-a-cause]"""
    story = two_members()
    story.start("b")
    story.silent.add("a")
    story.pass_time(60)
    ((rule, subject, evidence),) = findings(story, tmp_path)
    assert (rule, subject) == ("expired_member", A)
    assert evidence.startswith("sent no heartbeat for 45.0 s")


def test_member_that_takes_late(tmp_path: Path) -> None:
    story = two_members()
    story.start("b")
    story.silent.add("b")
    story.pass_time(40)
    story.silent.clear()
    story.pass_time(20)
    ((rule, subject, evidence),) = findings(story, tmp_path)
    assert (rule, subject) == ("late_takeover", B)
    assert evidence == "took over 2 partitions (orders-2, orders-3) 34.0 s after they were free"


def test_ordinary_rebalances_have_no_finding(tmp_path: Path) -> None:
    story = two_members()
    for name in ("b", "c"):
        story.start(name)
        story.pass_time(30)
    story.stop("a")
    story.pass_time(30)
    assert findings(story, tmp_path) == []
