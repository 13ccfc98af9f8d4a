"""Share groups in the pipeline: deliveries, poison records, start offsets, members, findings."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.coordinator.share_partition.states import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from coterie.lab.errors import WrongInput
from coterie.lab.recorded import read_recorded
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.replay import replay_groups
from coterie.pipeline.jobs.run import run
from coterie.pipeline.report.data import page_data
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from coterie.pipeline.timeline.model import SHARE
from coterie.pipeline.what_if import NOT_REPLAYED
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, RELEASE, FailedDelivery
from tests.pipeline.jobs.shared import SharedGroup
from tests.pipeline.jobs.written import NOW_MS, Directory, table
from tests.pipeline.timeline.facts import joined

_MINUTE_MS = 60_000


def held(member_id: str, first: int, last: int, count: int, *, given_up: bool) -> FailedDelivery:
    return FailedDelivery(
        member_id=member_id,
        first_offset=first,
        last_offset=last,
        delivery_count=count,
        given_up=given_up,
    )


def jobs(path: Path) -> SharedGroup:
    """Return a share group with two members that read two partitions."""
    data = Directory(path)
    group = SharedGroup(data, "jobs")
    data.facts("jobs", joined(NOW_MS, "one"))
    group.members(NOW_MS, one=[])
    group.begin(NOW_MS + 100, 2)
    group.members(NOW_MS + 5_000, one=[0, 1], two=[0, 1])
    return group


def run_on(group: SharedGroup, output: Path) -> str:
    run(LocalEngine(), [group.data.write()], str(output))
    return str(output)


def test_deliveries_with_how_they_ended(tmp_path: Path) -> None:
    group = jobs(tmp_path / "data")
    at_ms = NOW_MS + _MINUTE_MS
    group.ended(at_ms, 0, (0, 9, ACKNOWLEDGED, 1))
    group.failed(at_ms + 1_000, 0, LOCK_TIMEOUT, held("two", 10, 11, 1, given_up=False))
    group.ended(at_ms + 1_003, 0, (10, 11, AVAILABLE, 1))
    group.ended(at_ms + 2_000, 0, (10, 10, AVAILABLE, 2), (11, 11, ARCHIVED, 2))
    group.failed(at_ms + 3_000, 0, RELEASE, held("two", 10, 10, 3, given_up=True))
    group.ended(at_ms + 3_001, 0, (10, 10, ARCHIVED, 3))
    output = run_on(group, tmp_path / "out")

    columns = ("first_offset", "last_offset", "became", "delivery_count", "ended_by", "member_id")
    assert table(output, "share_deliveries", "at_ts", *columns) != []
    assert sorted(table(output, "share_deliveries", *columns)) == [
        (0, 9, "ACKNOWLEDGED", 1, "accepted", None),
        (10, 10, "ARCHIVED", 3, "delivery limit", "two"),
        (10, 10, "AVAILABLE", 2, "released", None),
        (10, 11, "AVAILABLE", 1, "lock timeout", "two"),
        (11, 11, "ARCHIVED", 2, "rejected", None),
    ]
    assert table(
        output, "share_partitions", "topic", "partition", "start_offset", "timed_out", "given_up"
    ) == [("a", 0, 12, 2, 2), ("a", 1, 0, 0, 0)]
    assert table(output, "poison_records", "record_offset", "delivery_count", "ended_by") == [
        (10, 3, "delivery limit"),
        (11, 2, "rejected"),
    ]
    # The page has them, too.
    (shown,) = page_data(read_content(Store.reading(output)))["groups"]
    assert [each[:2] for each in shown["shared"]] == [["a-0", 12], ["a-1", 0]]
    assert [each[:3] for each in shown["poison"]] == [["a-0", 10, 3], ["a-0", 11, 2]]
    assert [each[6] for each in shown["failed"]].count("lock timeout") == 1
    assert len(shown["failed"]) == 4
    # Where the group is, is what other groups commit, and so its progress is theirs.
    assert table(output, "commit_velocity_1m", "topic", "partition", "last_offset")[-2:] == [
        ("a", 0, 12),
        ("a", 1, 0),
    ]


def test_without_a_journal_only_what_is_certain_is_said(tmp_path: Path) -> None:
    group = SharedGroup(Directory(tmp_path / "data"), "jobs")
    group.begin(NOW_MS, 1)
    group.ended(NOW_MS + 1, 0, (0, 0, AVAILABLE, 1), (1, 1, ARCHIVED, 1), (2, 2, ARCHIVED, 2))
    output = run_on(group, tmp_path / "out")
    assert table(output, "share_deliveries", "first_offset", "ended_by") == [
        (0, None),
        (1, "rejected"),
        (2, None),
    ]


def test_members_share_partitions_and_nothing_is_handed_over(tmp_path: Path) -> None:
    group = jobs(tmp_path / "data")
    group.members(NOW_MS + _MINUTE_MS, two=[0, 1])
    output = run_on(group, tmp_path / "out")
    rebalances = table(
        output, "rebalances", "to_generation", "trigger", "group_type", "members", "partitions",
        "moved", "unowned_partition_ms",
    )  # fmt: skip
    assert rebalances == [
        (2, "join", "share", 1, 0, 0, 0),
        (3, "join", "share", 2, 2, 0, 0),
        (4, "leave or expiry", "share", 1, 2, 0, 0),
    ]
    assert len(table(output, "ownership", "partition", "member_key", "to_ts")) == 4
    assert table(output, "partition_moves", "topic") == []
    assert [
        each for each in check(LocalEngine(), Store.reading(output)) if each.severity == "error"
    ] == []


def test_findings_name_the_records_and_who_held_them(tmp_path: Path) -> None:
    group = jobs(tmp_path / "data")
    at_ms = NOW_MS + _MINUTE_MS
    for count in range(1, 5):
        when_ms = at_ms + count * 2 * _MINUTE_MS
        failed = held("two", 0, 0, count, given_up=False)
        group.failed(when_ms, 0, LOCK_TIMEOUT, failed)
        group.ended(when_ms, 0, (0, 0, AVAILABLE, count), (count, count, ACKNOWLEDGED, 1))
    group.failed(at_ms, 1, RELEASE, held("one", 7, 7, 5, given_up=True))
    group.ended(at_ms, 1, (7, 7, ARCHIVED, 5))
    output = run_on(group, tmp_path / "out")
    found = {rule: (subject, text) for rule, subject, text in table(
        output, "anomalies", "rule", "subject", "evidence"
    )}  # fmt: skip
    assert found == {
        "expired_locks": (
            "client-two at h",
            (
                "held 4 records of a-0 until their locks expired, 4 times: others get them again"
                " while it may still process them"
            ),
        ),
        "near_delivery_limit": (
            None,
            (
                "1 record (a-0 at 0) came back after each of up to 4 deliveries, and will be given"
                " up: the default is after 5"
            ),
        ),
        "poison_record": (
            None,
            "1 record (a-1 at 7) was given up, delivered 5 times: nobody gets them any more",
        ),
    }


def test_a_start_offset_that_stands(tmp_path: Path) -> None:
    group = jobs(tmp_path / "data")
    group.ended(NOW_MS + _MINUTE_MS, 0, (1, 9, ACKNOWLEDGED, 1))
    group.ended(NOW_MS + 8 * _MINUTE_MS, 0, (0, 0, AVAILABLE, 1), (10, 19, ACKNOWLEDGED, 1))
    output = run_on(group, tmp_path / "out")
    assert table(output, "anomalies", "rule", "evidence") == [
        (
            "start_offset_stands",
            (
                "a-0 stands at offset 0 for 8 min 00 s, delivered 1 time so far, while 19 records"
                " behind it were done with"
            ),
        )
    ]


def test_replays_leave_share_groups_out(tmp_path: Path) -> None:
    """[pipeline/what-if]"""
    group = jobs(tmp_path / "data")
    output = run_on(group, tmp_path / "out")
    replayed = replay_groups(LocalEngine(), Store.reading(output), "sticky", groups=["jobs"])
    (row,) = replayed.to_pylist()
    assert row["left_out"] > 0
    assert (row["rebalances"], row["problem"]) == ([], NOT_REPLAYED[SHARE])
    with pytest.raises(WrongInput, match="is a share group"):
        read_recorded(str(tmp_path / "data"), "jobs", {})
