"""Commits by minute, the offsets committed at moves, and lag."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]

START_S = 1_760_000_400  # a full minute
COMMITS = (
    "group_id string, topic string, partition int, log_offset bigint, committed_offset bigint,"
    " record_ts timestamp, is_tombstone boolean"
)
MOVES = "group_id string, topic string, partition int, at_ts timestamp, gap_ms bigint"
ENDS = "topic string, partition int, at_ts timestamp, log_end_offset bigint"
VELOCITY = (
    "group_id string, partition int, window_start_ts timestamp, commits bigint, advance bigint,"
    " rewinds bigint, last_offset bigint, rewound_by bigint, rewound_offset bigint"
)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START_S + seconds, UTC)


def commits(spark: "SparkSession", *rows: tuple[Any, ...]) -> "DataFrame":
    """Return commits from rows of (group, partition, log offset, offset or None, seconds)."""
    return spark.createDataFrame(
        [
            (group, "a", partition, log_offset, offset, at(seconds), offset is None)
            for group, partition, log_offset, offset, seconds in rows
        ],
        COMMITS,
    )


def minutes_of(given: "DataFrame", stretches: int = 1) -> "DataFrame":
    """Return the minutes of commits, which are cut into stretches that overlap each other."""
    from coterie.pipeline.schemas import spark_schema
    from coterie.pipeline.transforms.commit_runs import COLUMNS, RUNS, commit_runs
    from coterie.pipeline.transforms.progress import commit_minutes, with_overlaps

    def summed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for number in range(stretches):
                yield commit_runs(rows.take(pa.array(range(number, rows.num_rows, stretches))))

    runs = given.coalesce(1).select(*COLUMNS).mapInArrow(summed, spark_schema(RUNS))
    return with_overlaps(commit_minutes(runs).persist(), given)


@pytest.mark.parametrize("stretches", [1, 3])
def test_steps_are_counted_in_the_order_of_the_log(spark: "SparkSession", stretches: int) -> None:
    from pyspark.testing import assertDataFrameEqual

    given = commits(
        spark,
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
    found = minutes_of(given, stretches).select(*[each.split()[0] for each in VELOCITY.split(", ")])
    expected = [
        ("g", 0, at(0), 3, 21, 0, 31, None, None),
        ("g", 0, at(60), 2, 1, 1, None, 20, 4),
        ("g", 0, at(120), 1, 0, 0, 2, None, None),
        ("g", 1, at(0), 1, 0, 0, 99, None, None),
    ]
    assertDataFrameEqual(found, spark.createDataFrame(expected, VELOCITY))


def test_moves_get_the_newest_committed_offset(spark: "SparkSession") -> None:
    from pyspark.testing import assertDataFrameEqual

    from coterie.pipeline.schemas import spark_schema
    from coterie.pipeline.transforms.commit_runs import COLUMNS
    from coterie.pipeline.transforms.handovers import FOUND, newest_commits, with_dictionaries
    from coterie.pipeline.transforms.progress import moments, with_handover

    given = commits(
        spark,
        ("g", 0, 1, 10, 0),
        ("g", 0, 2, 20, 30),
        ("g", 0, 3, 25, 50),
        ("g", 0, 4, None, 400),
        ("g", 1, 5, 7, 100),
    )
    moves = [
        ("g", "a", 0, at(40), 1),  # within the minute
        ("g", "a", 0, at(300), 2),  # minutes later
        ("g", "a", 0, at(900), 3),  # after a deletion
        ("g", "a", 1, at(90), 4),  # before anything
        ("g", "a", 2, at(90), None),  # never committed
    ]
    moved = spark.createDataFrame(moves, MOVES)
    times = moments(moved).toArrow()
    encoded = with_dictionaries(times)

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            yield newest_commits(rows, encoded)

    newest = given.select(*COLUMNS).mapInArrow(find, spark_schema(FOUND))
    found = with_handover(moved, times, minutes_of(given), newest)
    expected = [
        (*move, offset) for move, offset in zip(moves, (20, 25, None, None, None), strict=True)
    ]
    schema = MOVES + ", committed_at_handover bigint"
    assertDataFrameEqual(found, spark.createDataFrame(expected, schema))


def test_lag_is_unknown_without_log_end_and_stalls_without_progress(spark: "SparkSession") -> None:
    from coterie.pipeline.transforms.progress import lag_1m

    given = commits(spark, ("g", 0, 1, 100, 30), ("g", 0, 2, 110, 90), ("g", 1, 3, 5, 30))
    minutes = minutes_of(given).persist()
    unknown = lag_1m(minutes).collect()
    assert {(row["lag"], row["log_end_offset"], row["stalled"]) for row in unknown} == {
        (None, None, None)
    }
    seen = [(0, 100), (60, 110), (120, 140), *((60 * each, 150) for each in range(3, 9))]
    ends = spark.createDataFrame([("a", 0, at(after + 50), end) for after, end in seen], ENDS)
    rows = lag_1m(minutes, ends).where("partition = 0").orderBy("window_start_ts").collect()
    assert [(row["committed_offset"], row["lag"]) for row in rows] == [
        (100, 0), (110, 0), (110, 30), *[(110, 40)] * 6,
    ]  # fmt: skip
    # The log end was 110 in the second minute, so later messages were written after that.
    assert [row["time_lag_ms"] for row in rows][:4] == [0, 0, 60_000, 120_000]
    # Minutes 2 to 8 have a lag. Five of them without progress are a stall.
    assert [row["stalled"] for row in rows] == [False] * 6 + [True] * 3
    (other,) = lag_1m(minutes, ends).where("partition = 1").collect()
    assert (other["committed_offset"], other["lag"]) == (5, None)
