"""The rules of reset-offsets, one by one."""

from collections.abc import Callable

import pytest

from coterie.client.errors import ClientError
from coterie.client.resetting import (
    PlannedOffset,
    Range,
    duration_ms_of,
    shift_by,
    timestamp_of,
    to_current,
    to_earliest,
    to_given,
    to_latest,
    to_offset,
)

PART = ("t", 0)
# A partition with offsets 10 to 19, of which 10 to 14 are consumed.
AT = Range(PART, begin=10, end=20, committed=15)
FRESH = Range(PART, begin=10, end=20, committed=None)


@pytest.mark.parametrize(
    ("rule", "new"),
    [
        (to_earliest, 10),
        (to_latest, 20),
        (to_current, 15),
        (to_offset(12), 12),
        (to_offset(20), 20),
        (shift_by(-3), 12),
        (shift_by(3), 18),
        (to_given({PART: 11}), 11),
    ],
)
def test_rules_give_offsets_within_the_partition(
    rule: Callable[[Range], PlannedOffset], new: int
) -> None:
    assert rule(AT) == PlannedOffset(PART, 15, new)


@pytest.mark.parametrize(
    ("rule", "new", "remark"),
    [
        (to_offset(21), 20, "21 is above the end"),
        (to_offset(9), 10, "9 is below the start"),
        (shift_by(100), 20, "115 is above the end"),
        (shift_by(-100), 10, "-85 is below the start"),
        (to_given({PART: 99}), 20, "99 is above the end"),
    ],
)
def test_offset_outside_is_moved_to_the_nearest_end_with_a_remark(
    rule: Callable[[Range], PlannedOffset], new: int, remark: str
) -> None:
    assert rule(AT) == PlannedOffset(PART, 15, new, remark)


def test_to_current_without_a_committed_offset_is_the_end() -> None:
    planned = to_current(FRESH)
    assert (planned.current, planned.new) == (None, 20)
    assert planned.remark is not None


def test_shift_needs_a_committed_offset() -> None:
    with pytest.raises(ClientError, match="Partition t-0 has no committed offset to shift"):
        shift_by(1)(FRESH)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T10:00:00.123", 1769853600123),
    ],
)
def test_times_without_an_offset_are_utc(text: str, timestamp_ms: int) -> None:
    assert timestamp_of(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P1D", 86_400_000),
        ("P1DT0.5S", 86_400_500),
        ("PT0S", 0),
        ("-PT1M", -60_000),
        ("pt5m", 300_000),
    ],
)
def test_durations_are_read(text: str, duration_ms: int) -> None:
    assert duration_ms_of(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1Y", "PT1", "P1DT", "PT1M1H", "PTS"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms_of(text)
