"""Partitions without progress: one finding a group and cause [pipeline/stalls]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.findings.rows import START_S, found, lag, minute, owned, session


def stalled(group: str, *minutes: int, partitions: int = 6) -> list[dict[str, object]]:
    """Return the lags of partitions that do not progress in these minutes."""
    return [
        lag(group, minute * 60, partition, behind=140 + (partition < 2))
        for minute in minutes
        for partition in range(partitions)
    ]


def test_partitions_of_an_empty_group_are_one_piece_of_information() -> None:
    sessions = [session("g", "m", 0, 719)]
    (finding,) = found({"lag_1m": stalled("g", *range(18, 40)), "member_sessions": sessions})
    assert (finding.rule, finding.value) == ("empty_group_with_lag", 842)
    assert finding.evidence == (
        "6 partitions stand, nobody is in the group since 09:11:59, lag 842"
    )


def test_one_log_end_shows_the_lag_of_an_empty_group_only() -> None:
    """Members may be about to read what was written a moment before [pipeline/stalls]."""
    rows = {
        "minutes": [minute("g", 60 * each) for each in range(15)],
        "lag_1m": [lag("g", 32 * 60, 0, behind=140, stalled=False)],
    }
    assert not found(rows | {"member_sessions": [session("g", "m", 0, None)]})
    (finding,) = found(rows | {"member_sessions": [session("g", "m", 0, 900)]})
    assert (finding.rule, finding.value) == ("empty_group_with_lag", 140)
    # It has not stopped long ago.
    rows["lag_1m"] = [lag("g", 17 * 60, 0, behind=140, stalled=False)]
    assert not found(rows | {"member_sessions": [session("g", "m", 0, 900)]})


def test_live_members_that_do_not_progress_are_critical() -> None:
    rows = {
        "lag_1m": stalled("g", *range(10, 30), partitions=2),
        "member_sessions": [session("g", "m", 0, None, "stuck")],
        "ownership": [owned("g", n, 0, None) for n in range(2)],
    }
    (finding,) = found(rows)
    assert (finding.rule, finding.subject, finding.value) == (
        "stalled_partition", "stuck at h", 282,
    )  # fmt: skip
    assert finding.evidence == (
        "2 partitions stand: stuck at h has not progressed since 09:05:00, lag 282; a-0, a-1"
    )
    # 20 minutes and the five before them, of two partitions, with a lag of 141 each.
    assert finding.cost == pytest.approx(2 * 25 * 60 * 142)


def test_stall_that_is_over_is_a_warning() -> None:
    rows = {
        "lag_1m": [*stalled("g", 10, 11, 12, 13, partitions=1), lag("g", 3000, stalled=False)],
        "member_sessions": [session("g", "m", 0, None)],
    }
    assert [each.rule for each in found(rows)] == ["passed_stall"]


def test_group_that_is_stopped_during_a_stall_has_two_causes() -> None:
    rows = {
        "lag_1m": stalled("g", *range(10, 40), partitions=1),
        "member_sessions": [session("g", "m", 0, 1200)],
    }
    assert [each.rule for each in found(rows)] == ["passed_stall", "empty_group_with_lag"]


def test_group_that_never_had_a_member_is_information() -> None:
    (finding,) = found({"lag_1m": stalled("g", 10, 11, partitions=1)})
    assert finding.rule == "empty_group_with_lag"
    assert "no members that a coordinator manages" in finding.evidence


def test_short_stall_that_is_over_is_nothing() -> None:
    """A batch took six minutes."""
    rows = {
        "lag_1m": [*stalled("g", 10, 11, partitions=1), lag("g", 3000, stalled=False)],
        "member_sessions": [session("g", "m", 0, None)],
    }
    assert not found(rows)


def test_a_stall_begins_with_the_last_progress_in_the_commits() -> None:
    """The log ends were requested at one moment, long after the last commit."""
    rows = {
        "minutes": [minute("g", 60 * each) for each in range(15)],
        "lag_1m": stalled("g", 32, partitions=1),
        "member_sessions": [session("g", "m", 0, None, "stuck")],
        "ownership": [owned("g", 0, 0, None)],
    }
    (finding,) = found(rows)
    assert "stuck at h has not progressed since 09:14:30, lag 141" in finding.evidence
    assert finding.from_ms == finding.at_ms == (START_S + 14 * 60 + 30) * 1000
    # From the last commit to the end of the minute of the log end.
    assert finding.cost == pytest.approx((33 * 60 - 14 * 60 - 30) * 142)


def test_a_time_without_log_ends_does_not_divide_a_stall() -> None:
    """Runs over the wire request log ends once each."""
    commits = {"minutes": [minute("g", 60 * each, part) for each in range(15) for part in (0, 1)]}
    sessions = {"member_sessions": [session("g", "m", 0, 900)]}
    for runs in ([90], [32, 90], [32, 33, 55, 90]):
        (finding,) = found(commits | sessions | {"lag_1m": stalled("g", *runs, partitions=2)})
        assert (finding.rule, finding.from_ms) == (
            "empty_group_with_lag", (START_S + 14 * 60 + 30) * 1000,
        )  # fmt: skip
        assert "nobody is in the group since 09:15:00" in finding.evidence
        assert finding.cost == pytest.approx(2 * (91 * 60 - 14 * 60 - 30) * 142)


def test_progress_between_log_ends_divides_a_stall() -> None:
    rows = {
        "minutes": [minute("g", 60 * each) for each in (*range(15), 60)],
        "lag_1m": stalled("g", 30, 90, partitions=1),
        "member_sessions": [session("g", "m", 0, None)],
    }
    passed, stands = sorted(found(rows), key=lambda finding: finding.from_ms)
    assert (passed.rule, stands.rule) == ("passed_stall", "stalled_partition")
    assert [each.from_ms for each in (passed, stands)] == [
        (START_S + 60 * each + 30) * 1000 for each in (14, 60)
    ]
