"""What groups committed: by the minute, when a partition changed hands, and behind the log's end.

Commits are millions of rows, so they are summed up where they lie (`commit_runs`) and joined to
`commit_minutes`; everything else is worked out from those minutes.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.transforms.commit_runs import (
    COLUMNS,
    MINUTES,
    OWN_GROUPS,
    RUNS,
    commit_runs,
    joined,
)
from coterie.pipeline.transforms.handovers import ASKED, ENDED, SAID, answered

KEY = ("group_id", "topic", "partition")
MINUTE_MS = 60_000

# A partition is stalled after so many minutes with a lag and without a step: as long as a consumer
# may be busy before it must poll again (max.poll.interval.ms, five minutes by default).
STALLED_MINUTES = 5
# A log end that was looked at longer ago tells nothing about now.
LOG_END_MINUTES = 5


def of_others(rows: DataFrame) -> DataFrame:
    """The rows of groups that are not Spark's own."""
    return rows.where(~f.col("group_id").rlike(OWN_GROUPS))


def commit_minutes(runs: DataFrame) -> DataFrame:
    """Commits by partition and minute.

    Args:
        runs: those of all commits, see `commit_runs`.

    Returns:
        The columns of `commit_velocity_1m`, and `rewound_by`: the farthest step back in it, null
        where there was none; `rewound_offset`: the log offset of that commit; `first_ts` and
        `last_ts`: when the first and the last commit came; `overlaps`: whether there are
        commits of another run between those of one, so that `with_overlaps` has to look at them.
    """
    return runs.repartition("group_id").mapInArrow(joined, spark_schema(MINUTES))


def with_overlaps(minutes: DataFrame, commits: DataFrame) -> DataFrame:
    """The minutes, worked out from the commits themselves for partitions whose runs overlap.

    A transaction's commit counts when its marker is read, which may be after later ones; and who
    writes a file may put rows into it that belong before and behind another file's.

    Args:
        minutes: of `commit_minutes`, persisted.
        commits: `offset_commits`.
    """
    overlapping = minutes.where("overlaps").select(*KEY).distinct()
    found = minutes.drop("overlaps")
    if overlapping.isEmpty():
        return found
    again = commits.join(f.broadcast(overlapping), list(KEY), "left_semi")
    in_order = again.repartition(*KEY).sortWithinPartitions(*KEY, "log_offset")
    whole = in_order.groupBy(*KEY).applyInArrow(_runs_of_all, spark_schema(RUNS))
    kept = found.join(f.broadcast(overlapping), list(KEY), "left_anti")
    return kept.unionByName(commit_minutes(whole).drop("overlaps"))


def _runs_of_all(commits: pa.Table) -> pa.Table:
    """The runs of all commits of one partition."""
    rows = commits.select(COLUMNS).combine_chunks().to_batches()
    return pa.Table.from_batches([commit_runs(each) for each in rows], RUNS)


def with_handover(
    moves: DataFrame, moments: pa.Table, minutes: DataFrame, handed: DataFrame
) -> DataFrame:
    """Moves, each with the newest offset that was committed when the partition changed hands.

    Within the minute of the move every commit counts; before it, the ends of minutes do.

    Args:
        moves: `partition_moves` without `committed_at_handover`.
        moments: of the moves.
        minutes: see `commit_minutes`.
        handed: of all commits, what `handovers.handed_over` says to the moments.
    """
    moved = moments.group_by(list(KEY)).aggregate([])
    keys = minutes.sparkSession.createDataFrame(moved)
    ends = minutes.join(f.broadcast(keys), list(KEY), "left_semi").select(
        *KEY,
        # What a minute ended with is known from the next one on.
        (f.col("window_start_ts") + f.expr("interval 1 minute")).alias("at_ts"),
        f.lit(ENDED).alias("kind"),
        f.lit(0).cast("bigint").alias("log_offset"),
        f.col("last_offset").alias("committed_offset"),
    )
    said = handed.withColumn("kind", f.lit(SAID))
    asked = moves.withColumn("kind", f.lit(ASKED))
    everything = asked.unionByName(said, allowMissingColumns=True).unionByName(
        ends, allowMissingColumns=True
    )
    found = [*moves.schema.fields, StructField("committed_at_handover", LongType())]
    # One shuffle, and no join: who answers and who asks come together by their group.
    return everything.repartition("group_id").mapInArrow(answered, StructType(found))


def moments(moves: DataFrame) -> DataFrame:
    """When partitions changed hands: what `handovers.handed_over` is asked."""
    return moves.select(*KEY, "at_ts").where(f.col("at_ts").isNotNull())


def lag_1m(minutes: DataFrame, log_ends: DataFrame | None = None) -> DataFrame:
    """Lag by the minute, at its end.

    `time_lag_ms` is how old the next record to be read can be at most: it was written after the
    log's end had been seen at the committed offset.

    Args:
        minutes: see `commit_minutes`.
        log_ends: `topic, partition, at_ts, log_end_offset`, as often as somebody looked. Without
            it a lag is not known.
    """
    if log_ends is None:
        return minutes.select(
            *KEY,
            "window_start_ts",
            f.col("last_offset").alias("committed_offset"),
            f.lit(None).cast("bigint").alias("log_end_offset"),
            f.lit(None).cast("bigint").alias("lag"),
            f.lit(None).cast("bigint").alias("time_lag_ms"),
            f.lit(None).cast("boolean").alias("stalled"),
        )
    ends = log_ends.groupBy(
        "topic", "partition", f.date_trunc("minute", "at_ts").alias("window_start_ts")
    ).agg(
        f.max("at_ts").alias("seen_ts"),
        f.max_by("log_end_offset", "at_ts").alias("log_end_offset"),
    )
    rows = _known_at(minutes, ends)
    behind = f.col("log_end_offset") - f.col("committed_offset")
    # `greatest` passes over nulls, and what is not known is not 0.
    lag = f.when(behind.isNotNull(), f.greatest(behind, f.lit(0)))
    rows = _with_written(rows.withColumn("lag", lag), log_ends)
    time_lag = f.when(f.col("lag") == 0, f.lit(0)).otherwise(
        f.unix_millis("seen_ts") - f.unix_millis("written_after_ts")
    )
    # A stall is a lag throughout, and no step.
    order = Window.partitionBy(*KEY).orderBy("window_start_ts")
    is_first = f.row_number().over(order) == 1
    goes_on = (f.col("lag") == 0) | (f.col("advance") > 0) | f.col("is_first")
    went_on_ts = f.last(f.when(goes_on, f.col("window_start_ts")), ignorenulls=True).over(
        _until_now(order)
    )
    stands_ms = f.unix_millis("window_start_ts") - f.unix_millis(went_on_ts)
    return (
        rows.withColumn("is_first", is_first)
        .withColumn("stands_ms", stands_ms)
        .select(
            *KEY,
            "window_start_ts",
            "committed_offset",
            "log_end_offset",
            "lag",
            time_lag.alias("time_lag_ms"),
            ((f.col("lag") > 0) & (f.col("stands_ms") >= STALLED_MINUTES * MINUTE_MS)).alias(
                "stalled"
            ),
        )
    )


def _until_now(order: WindowSpec) -> WindowSpec:
    return order.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _known_at(minutes: DataFrame, ends: DataFrame) -> DataFrame:
    """Every minute in which something was committed or looked at, with what is known at its end."""
    began = minutes.groupBy(*KEY).agg(f.min("window_start_ts").alias("began_ts"))
    looked = began.join(ends, ["topic", "partition"]).where(
        f.col("window_start_ts") >= f.col("began_ts")
    )
    rows = minutes.select(
        *KEY, "window_start_ts", f.struct("last_offset").alias("committed"), "advance"
    ).join(
        looked.select(*KEY, "window_start_ts", f.struct("seen_ts", "log_end_offset").alias("end")),
        [*KEY, "window_start_ts"],
        "full",
    )
    order = _until_now(Window.partitionBy(*KEY).orderBy("window_start_ts"))
    rows = rows.select(
        *KEY,
        "window_start_ts",
        "advance",
        f.last("committed", ignorenulls=True).over(order)["last_offset"].alias("committed_offset"),
        f.last("end", ignorenulls=True).over(order).alias("end"),
    )
    age_ms = f.unix_millis("window_start_ts") - f.unix_millis("end.seen_ts")
    fresh = age_ms < LOG_END_MINUTES * MINUTE_MS
    return rows.select(
        *KEY,
        "window_start_ts",
        "advance",
        "committed_offset",
        _where(fresh, "end.seen_ts").alias("seen_ts"),
        _where(fresh, "end.log_end_offset").alias("log_end_offset"),
    )


def _where(condition: Column, name: str) -> Column:
    return f.when(condition, f.col(name))


def _with_written(rows: DataFrame, log_ends: DataFrame) -> DataFrame:
    """Rows, each with when the log's end was last seen at or before its committed offset."""
    looks = log_ends.select(
        "topic",
        "partition",
        f.col("log_end_offset").alias("at_offset"),
        f.col("at_ts").alias("look_ts"),
        f.lit(False).alias("is_row"),
    )
    asked = rows.withColumn("at_offset", f.col("committed_offset")).withColumn(
        "is_row",
        f.lit(True),
    )
    order = Window.partitionBy("topic", "partition").orderBy("at_offset", "is_row")
    written = f.max("look_ts").over(_until_now(order))
    return (
        asked.unionByName(looks, allowMissingColumns=True)
        .withColumn("written_after_ts", written)
        .where("is_row")
        .drop("is_row", "look_ts", "at_offset")
    )
