"""The groups' commits by minute, the offsets committed at moves, and lag.

There are millions of commits, so workers sum them file by file (`commit_runs`), and the sums are
joined to minutes. Everything else is computed from these minutes.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.transforms.commit_runs import (
    COLUMNS,
    MINUTES,
    RUNS,
    SPARK_GROUPS,
    commit_runs,
    join_runs,
)
from coterie.pipeline.transforms.handovers import (
    COMMIT,
    MINUTE_END,
    MOVE,
    with_committed_offsets,
)

KEY = ("group_id", "topic", "partition")
MINUTE_MS = 60_000

# After this many minutes with a lag and without progress a partition is stalled [pipeline/stall].
STALLED_MINUTES = 5
# A log end that is older than this does not give a lag [pipeline/lag].
LOG_END_MINUTES = 5


def without_spark_groups(rows: DataFrame) -> DataFrame:
    """Return the rows of groups that are not Spark's own [pipeline/spark-groups]."""
    return rows.where(~f.col("group_id").rlike(SPARK_GROUPS))


def commit_minutes(runs: DataFrame) -> DataFrame:
    """Sum commits by partition and minute [pipeline/commit-minutes].

    Args:
        runs: the runs of all commits, see `commit_runs`.

    Returns:
        The columns of `commit_velocity_1m`, and `rewound_by`: the largest step back in the minute,
        null if there was none; `rewound_offset`: the log offset of that commit; `first_ts` and
        `last_ts`: the times of the first and the last commit; `overlaps`: whether the sums may be
        wrong because commits of another run lie between those of one run.
    """
    return runs.repartition("group_id").mapInArrow(join_runs, spark_schema(MINUTES))


def with_overlaps(minutes: DataFrame, commits: DataFrame) -> DataFrame:
    """Compute the minutes of partitions whose runs overlap again, from their commits.

    Runs overlap because the commits of a transaction count when its marker is read, which may be
    after later commits, and because a file can contain commits from before and behind those of
    another file.

    Args:
        minutes: the persisted result of `commit_minutes`.
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
    """Return the runs of all commits of one partition."""
    rows = commits.select(COLUMNS).combine_chunks().to_batches()
    return pa.Table.from_batches([commit_runs(each) for each in rows], RUNS)


def with_handover(
    moves: DataFrame, moments: pa.Table, minutes: DataFrame, newest: DataFrame
) -> DataFrame:
    """Add the newest committed offset at the time of each move [pipeline/handover].

    Args:
        moves: `partition_moves` without `committed_at_handover`.
        moments: the times of the moves.
        minutes: see `commit_minutes`.
        newest: the results of `handovers.newest_commits` for the moments.
    """
    moved = moments.group_by(list(KEY)).aggregate([])
    keys = minutes.sparkSession.createDataFrame(moved)
    ends = minutes.join(f.broadcast(keys), list(KEY), "left_semi").select(
        *KEY,
        # The last offset of a minute is valid from the beginning of the next minute on.
        (f.col("window_start_ts") + f.expr("interval 1 minute")).alias("at_ts"),
        f.lit(MINUTE_END).alias("kind"),
        f.lit(0).cast("bigint").alias("log_offset"),
        f.col("last_offset").alias("committed_offset"),
    )
    everything = (
        moves.withColumn("kind", f.lit(MOVE))
        .unionByName(newest.withColumn("kind", f.lit(COMMIT)), allowMissingColumns=True)
        .unionByName(ends, allowMissingColumns=True)
    )
    fields = [*moves.schema.fields, StructField("committed_at_handover", LongType())]
    # One shuffle by group instead of joins: a worker has all rows of its groups.
    return everything.repartition("group_id").mapInArrow(with_committed_offsets, StructType(fields))


def moments(moves: DataFrame) -> DataFrame:
    """Return the times at which partitions changed their owner, for `handovers.newest_commits`."""
    return moves.select(*KEY, "at_ts").where(f.col("at_ts").isNotNull())


def lag_1m(minutes: DataFrame, log_ends: DataFrame | None = None) -> DataFrame:
    """Compute the lag at the end of each minute [pipeline/lag].

    Args:
        minutes: see `commit_minutes`.
        log_ends: `topic, partition, at_ts, log_end_offset` at some times; without it every lag is
            unknown.
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
    # `greatest` ignores nulls, but an unknown lag must not become 0.
    lag = f.when(behind.isNotNull(), f.greatest(behind, f.lit(0)))
    rows = _with_written(rows.withColumn("lag", lag), log_ends)
    time_lag = f.when(f.col("lag") == 0, f.lit(0)).otherwise(
        f.unix_millis("seen_ts") - f.unix_millis("written_after_ts")
    )
    # A stall is a time with a lag in every minute and without progress [pipeline/stall].
    order = Window.partitionBy(*KEY).orderBy("window_start_ts")
    is_first = f.row_number().over(order) == 1
    progresses = (f.col("lag") == 0) | (f.col("advance") > 0) | f.col("is_first")
    progress_ts = f.last(f.when(progresses, f.col("window_start_ts")), ignorenulls=True).over(
        _until_now(order)
    )
    idle_ms = f.unix_millis("window_start_ts") - f.unix_millis(progress_ts)
    return (
        rows.withColumn("is_first", is_first)
        .withColumn("idle_ms", idle_ms)
        .select(
            *KEY,
            "window_start_ts",
            "committed_offset",
            "log_end_offset",
            "lag",
            time_lag.alias("time_lag_ms"),
            ((f.col("lag") > 0) & (f.col("idle_ms") >= STALLED_MINUTES * MINUTE_MS)).alias(
                "stalled"
            ),
        )
    )


def _until_now(order: WindowSpec) -> WindowSpec:
    return order.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _known_at(minutes: DataFrame, ends: DataFrame) -> DataFrame:
    """Return every minute with a commit or a log end, with what is known at its end."""
    began = minutes.groupBy(*KEY).agg(f.min("window_start_ts").alias("began_ts"))
    with_end = began.join(ends, ["topic", "partition"]).where(
        f.col("window_start_ts") >= f.col("began_ts")
    )
    rows = minutes.select(
        *KEY, "window_start_ts", f.struct("last_offset").alias("committed"), "advance"
    ).join(
        with_end.select(
            *KEY, "window_start_ts", f.struct("seen_ts", "log_end_offset").alias("end")
        ),
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
        f.when(fresh, f.col("end.seen_ts")).alias("seen_ts"),
        f.when(fresh, f.col("end.log_end_offset")).alias("log_end_offset"),
    )


def _with_written(rows: DataFrame, log_ends: DataFrame) -> DataFrame:
    """Add to each row when the log end was last known to be at or before its committed offset."""
    ends = log_ends.select(
        "topic",
        "partition",
        f.col("log_end_offset").alias("at_offset"),
        f.col("at_ts").alias("end_ts"),
        f.lit(False).alias("is_row"),
    )
    both = (
        rows.withColumn("at_offset", f.col("committed_offset"))
        .withColumn("is_row", f.lit(True))
        .unionByName(ends, allowMissingColumns=True)
    )
    order = Window.partitionBy("topic", "partition").orderBy("at_offset", "is_row")
    written = f.max("end_ts").over(_until_now(order))
    return (
        both.withColumn("written_after_ts", written)
        .where("is_row")
        .drop("is_row", "end_ts", "at_offset")
    )
