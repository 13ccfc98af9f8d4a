"""Commits by minute, the offsets committed at moves, and lag.

Rules: [pipeline/commit-minutes].
"""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import COLUMNS, RUNS, commit_runs
from coterie.pipeline.transforms.handovers import newest_commits, with_dictionaries
from coterie.pipeline.transforms.histories import MOVES
from coterie.pipeline.transforms.lag import COMPLETED, lag_1m, sampled_moments
from coterie.pipeline.transforms.progress import (
    KEY,
    are_among,
    commit_minutes,
    with_handover,
    with_overlaps,
)

START_S = 1_760_000_400  # a full minute
COMMITS = pa.schema([TABLES["offset_commits"].schema.field(name) for name in COLUMNS])
VELOCITY = (
    "group_id", "partition", "window_start_ts", "commits", "advance", "rewinds", "last_offset",
    "rewound_by", "rewound_offset",
)  # fmt: skip


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START_S + seconds, UTC)


def commits(*rows: tuple[Any, ...]) -> pa.Table:
    """Return commits from rows of (group, partition, log offset, offset or None, seconds)."""
    return pa.Table.from_pylist(
        [
            {
                "group_id": group,
                "topic": "a",
                "partition": partition,
                "log_offset": log_offset,
                "committed_offset": offset,
                "record_ts": at(seconds),
                "is_tombstone": offset is None,
            }
            for group, partition, log_offset, offset, seconds in rows
        ],
        COMMITS,
    )


def minutes_of(given: pa.Table, stretches: int = 1) -> pa.Table:
    """Return the minutes of commits, which are cut into stretches that overlap each other."""
    (batch,) = given.combine_chunks().to_batches()
    runs = [
        commit_runs(batch.take(pa.array(range(number, batch.num_rows, stretches))))
        for number in range(stretches)
    ]
    minutes = commit_minutes(pa.Table.from_batches(runs, RUNS))
    overlapping = minutes.filter(minutes.column("overlaps"))
    again = given.filter(pa.array(are_among(given, overlapping)))
    return with_overlaps(minutes, again)


def tuples(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("stretches", [1, 3])
def test_steps_are_counted_in_the_order_of_the_log(stretches: int) -> None:
    given = commits(
        ("g", 0, 1, 10, 0),
        ("g", 0, 2, 30, 5),
        # The clock was set back.
        ("g", 0, 3, 31, 4),
        ("g", 0, 4, 11, 61),
        ("g", 0, 5, 12, 62),
        ("g", 0, 6, None, 63),
        ("g", 1, 7, 99, 0),
        # The first commit after a deletion is no step.
        ("g", 0, 8, 2, 130),
        ("spark-kafka-relation-1", 0, 9, 3, 0),
    )
    assert tuples(minutes_of(given, stretches), *VELOCITY) == [
        ("g", 0, at(0), 3, 21, 0, 31, None, None),
        ("g", 0, at(60), 2, 1, 1, None, 20, 4),
        ("g", 0, at(120), 1, 0, 0, 2, None, None),
        ("g", 1, at(0), 1, 0, 0, 99, None, None),
    ]


def test_moves_get_the_newest_committed_offset() -> None:
    given = commits(
        ("g", 0, 1, 10, 0),
        ("g", 0, 2, 20, 30),
        ("g", 0, 3, 25, 50),
        ("g", 0, 4, None, 400),
        ("g", 1, 5, 7, 100),
    )
    moves = [
        (0, at(40), 1, 20),  # within the minute
        (0, at(300), 2, 25),  # minutes later
        (0, at(900), 3, None),  # after a deletion
        (1, at(90), 4, None),  # before anything
        (2, at(90), None, None),  # never committed
    ]
    rows = [
        dict.fromkeys(MOVES.names)
        | {"group_id": "g", "topic": "a", "partition": partition, "at_ts": time, "gap_ms": gap_ms}
        for partition, time, gap_ms, _ in moves
    ]
    moved = pa.Table.from_pylist(rows, MOVES)
    encoded = with_dictionaries(moved.select([*KEY, "at_ts"]))
    (batch,) = given.to_batches()
    newest = pa.Table.from_batches([newest_commits(batch, encoded)])
    found = with_handover(moved, minutes_of(given), newest)
    assert found.schema == TABLES["partition_moves"].schema
    columns = ("partition", "at_ts", "gap_ms", "committed_at_handover")
    assert tuples(found, *columns) == sorted(moves, key=repr)


def ends_of(*seen: tuple[float, int], source: str | None = None) -> pa.Table:
    rows = [
        {
            "input": source,
            "topic": "a",
            "partition": 0,
            "at_ts": at(after),
            "log_end_offset": end,
        }
        for after, end in seen
    ]
    return pa.Table.from_pylist(rows, TABLES["log_ends"].schema)


def test_lag_is_unknown_without_log_end_and_stalls_without_progress() -> None:
    given = commits(("g", 0, 1, 100, 30), ("g", 0, 2, 110, 90), ("g", 1, 3, 5, 30))
    minutes = minutes_of(given)
    unknown = lag_1m(minutes, None).to_pylist()
    assert {(row["lag"], row["log_end_offset"], row["stalled"]) for row in unknown} == {
        (None, None, None)
    }
    seen = [(0, 100), (60, 110), (120, 140), *((60 * each, 150) for each in range(3, 9))]
    ends = ends_of(*((after + 50, end) for after, end in seen))
    found = lag_1m(minutes, ends)
    assert found.schema == TABLES["lag_1m"].schema
    rows = [row for row in found.sort_by("window_start_ts").to_pylist() if row["partition"] == 0]
    assert [(row["committed_offset"], row["lag"]) for row in rows] == [
        (100, 0), (110, 0), (110, 30), *[(110, 40)] * 6,
    ]  # fmt: skip
    # The log end was 110 in the second minute, so later messages were written after that.
    assert [row["time_lag_ms"] for row in rows][:4] == [0, 0, 60_000, 120_000]
    # Minutes 2 to 8 have a lag. Five minutes with one, and without progress, are a stall.
    assert [row["stalled"] for row in rows] == [False] * 7 + [True] * 2
    (other,) = (row for row in found.to_pylist() if row["partition"] == 1)
    assert (other["committed_offset"], other["lag"]) == (5, None)


@pytest.mark.parametrize(
    ("seen", "stalled"),
    [
        # One end: its messages may have been written a moment before.
        ([(1200, 120)], [False]),
        # There was no lag five minutes earlier, or less than five minutes ago.
        ([(900, 100), (1200, 120)], [False, False]),
        ([(960, 120), (1200, 120)], [False, False]),
        ([(900, 120), (1200, 120)], [False, True]),
        ([(900, 101), (1200, 120)], [False, True]),
        # The lag began again in between.
        ([(600, 120), (900, 100), (1200, 120)], [False, False, False]),
    ],
)
def test_two_log_ends_show_a_stall(seen: list[tuple[int, int]], stalled: list[bool]) -> None:
    """[pipeline/stall] The last commit is 20 minutes old."""
    minutes = minutes_of(commits(("g", 0, 1, 90, 0), ("g", 0, 2, 100, 30)))
    rows = lag_1m(minutes, ends_of(*seen)).sort_by("window_start_ts").to_pylist()
    assert [row["stalled"] for row in rows if row["lag"] is not None] == stalled


def test_lag_is_null_from_the_minute_in_which_the_log_end_is_too_old() -> None:
    minutes = minutes_of(commits(*(("g", 0, n, 10 + n, 60 * n) for n in range(8))))
    rows = lag_1m(minutes, ends_of((0, 30))).sort_by("window_start_ts").to_pylist()
    assert [row["lag"] for row in rows] == [20, 19, 18, 17, 16, None, None, None]


def test_lag_of_a_share_group_leaves_out_what_is_done_with() -> None:
    """[pipeline/share-progress]"""
    minutes = minutes_of(commits(("g", 0, 1, 10, 0), ("g", 0, 2, 20, 70), ("g", 1, 3, 10, 0)))
    rows = [(0, 5, 4), (0, 40, 6), (0, 130, 0), (1, 20, 90)]
    done = pa.Table.from_pylist(
        [
            {
                "group_id": "g",
                "topic": "a",
                "partition": index,
                "at_ts": at(after),
                "records": count,
            }
            for index, after, count in rows
        ],
        COMPLETED,
    )
    ends = ends_of((30, 30), (80, 30), (150, 30))
    found = lag_1m(minutes, ends, completed=done).sort_by("window_start_ts").to_pylist()
    lags = [(row["committed_offset"], row["lag"]) for row in found if row["partition"] == 0]
    # At each log end; what is done with later counts later.
    assert lags == [(10, 16), (20, 4), (20, 10)]


def lags_at_samples(given: pa.Table, *seen: tuple[float, int]) -> list[tuple[Any, ...]]:
    """Return committed offset, lag and time lag of each minute."""
    minutes, ends = minutes_of(given), ends_of(*seen)
    moments = with_dictionaries(sampled_moments(minutes, ends))
    (batch,) = given.to_batches()
    newest = pa.Table.from_batches([newest_commits(batch, moments)])
    rows = lag_1m(minutes, ends, newest=newest).sort_by("window_start_ts").to_pylist()
    return [(row["committed_offset"], row["lag"], row["time_lag_ms"]) for row in rows]


def test_lag_is_that_of_the_moment_at_which_the_log_end_was_requested() -> None:
    """Commits that a later run reads do not change it [pipeline/lag]."""
    commit = [("g", 0, n, 100 + n, 70 + 10 * n) for n in range(5)]
    sample = (85, 108)
    until_sample = lags_at_samples(commits(*commit[:2]), sample)
    assert until_sample == lags_at_samples(commits(*commit), sample) == [(101, 7, None)]
    # All commits of the minute are before the sample, or after it.
    assert lags_at_samples(commits(*commit), (115, 108)) == [(104, 4, None)]
    assert lags_at_samples(commits(*commit), (65, 108)) == [(None, None, None)]
    earlier = ("g", 0, 0, 99, 10)
    later = [("g", 0, 1 + n, 100 + n, 70 + 10 * n) for n in range(5)]
    assert lags_at_samples(commits(earlier, *later), (65, 108)) == [
        (99, None, None), (99, 9, None),
    ]  # fmt: skip


def test_time_lag_is_unknown_if_log_ends_are_more_than_a_minute_apart() -> None:
    """A consumer that is one second behind, and two runs 16 minutes apart [pipeline/lag]."""
    given = commits(*(("g", 0, n, 1000 + 60 * n, 60 * n) for n in range(17)))
    rows = lags_at_samples(given, (5, 1010), (16 * 60 + 1, 1961))
    assert rows[-1] == (1960, 1, None)
    # With a log end of the minute before, the message is at most that old.
    rows = lags_at_samples(given, (5, 1010), (15 * 60 + 30, 1930), (16 * 60 + 1, 1961))
    assert rows[-1] == (1960, 1, 31_000)


def test_topics_of_one_name_in_two_clusters_have_their_own_log_ends() -> None:
    """[pipeline/lag]"""
    minutes = minutes_of(commits(("g", 0, 1, 100, 0), ("g@west", 0, 1, 40, 0)))
    ends = pa.concat_tables([ends_of((50, 130), source="east"), ends_of((50, 45), source="west")])
    found = lag_1m(minutes, ends, lambda group: "west" if "@" in group else "east")
    assert tuples(found, "group_id", "lag") == [("g", 30), ("g@west", 5)]
    # A table of a user may not say of which cluster its topics are.
    found = lag_1m(minutes, ends_of((50, 130)), lambda group: "west" if "@" in group else "east")
    assert tuples(found, "group_id", "lag") == [("g", 30), ("g@west", 90)]


def test_table_of_lags_has_the_times_of_the_table() -> None:
    assert lag_1m(minutes_of(commits(("g", 0, 1, 1, 0))), None).schema.field(3).type == TIMESTAMP
