"""What groups committed: by the minute, when a partition changed hands, and behind the log's end.

Commits are millions of rows, so they are sorted once, into `commit_minutes`; everything else is
worked out from those minutes.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f

KEY = ("group_id", "topic", "partition")
MINUTE_MS = 60_000

# A partition is stalled after so many minutes with a lag and without a step: as long as a consumer
# may be busy before it must poll again (max.poll.interval.ms, five minutes by default).
STALLED_MINUTES = 5
# A log end that was looked at longer ago tells nothing about now.
LOG_END_MINUTES = 5

# Where Spark itself reads from Kafka, its drivers and executors are members of such groups.
_OWN_GROUPS = r"^spark-(kafka|executor)-"


def of_others(rows: DataFrame) -> DataFrame:
    """The rows of groups that are not Spark's own."""
    return rows.where(~f.col("group_id").rlike(_OWN_GROUPS))


def commit_minutes(commits: DataFrame) -> DataFrame:
    """Commits by partition and minute.

    Args:
        commits: `offset_commits`.

    Returns:
        The columns of `commit_velocity_1m`, and `rewound_by`: the farthest step back in it, null
        where there was none; `rewound_offset`: the log offset of that commit; `first_ts` and
        `last_ts`: when the first and the last commit came.
    """
    # The number in front sorts quicker than ids that begin alike.
    order = Window.partitionBy(f.xxhash64(*KEY), *KEY).orderBy("log_offset")
    offset = f.col("committed_offset")
    # After a deletion the offset before is not known, so nothing is a step back from it.
    step = offset - f.lag("committed_offset").over(order)
    rows = of_others(commits.where(f.col("record_ts").isNotNull())).select(
        *KEY, "log_offset", "committed_offset", "record_ts", "is_tombstone", step.alias("step")
    )
    back = f.when(f.col("step") < 0, -f.col("step"))
    committed_ts = f.when(~f.col("is_tombstone"), f.col("record_ts"))
    return rows.groupBy(*KEY, f.date_trunc("minute", "record_ts").alias("window_start_ts")).agg(
        f.count_if(~f.col("is_tombstone")).alias("commits"),
        f.coalesce(f.sum(f.greatest("step", f.lit(0))), f.lit(0)).alias("advance"),
        f.count_if(f.col("step") < 0).alias("rewinds"),
        f.max_by("committed_offset", "log_offset").alias("last_offset"),
        f.max(back).alias("rewound_by"),
        f.max_by("log_offset", back).alias("rewound_offset"),
        f.min(committed_ts).alias("first_ts"),
        f.max(committed_ts).alias("last_ts"),
    )


def with_handover(moves: DataFrame, minutes: DataFrame, commits: DataFrame) -> DataFrame:
    """Moves, each with the newest offset that was committed when the partition changed hands.

    Args:
        moves: `partition_moves` without `committed_at_handover`.
        minutes: see `commit_minutes`.
        commits: `offset_commits`.
    """
    minute = f.date_trunc("minute", "at_ts")
    moved = moves.withColumn("window_start_ts", minute)
    # Within the minute of the move every commit counts; before it, the ends of minutes do.
    wanted = moved.select(*KEY, "window_start_ts", "at_ts").distinct()
    at_once = (
        commits.where(f.col("record_ts").isNotNull())
        .withColumn("window_start_ts", f.date_trunc("minute", "record_ts"))
        .join(f.broadcast(wanted), [*KEY, "window_start_ts"])
        .where(f.col("record_ts") <= f.col("at_ts"))
        .groupBy(*KEY, "at_ts")
        .agg(f.max_by(f.struct("committed_offset"), "log_offset").alias("at_once"))
    )
    before = Window.partitionBy(*KEY).orderBy("window_start_ts", "is_move")
    known = f.last("ended_with", ignorenulls=True).over(
        before.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ends = minutes.select(
        *KEY,
        # What a minute ended with is known from the next one on.
        (f.col("window_start_ts") + f.expr("interval 1 minute")).alias("window_start_ts"),
        f.struct(f.col("last_offset").alias("committed_offset")).alias("ended_with"),
        f.lit(False).alias("is_move"),
    )
    asked = wanted.withColumn("is_move", f.lit(True))
    earlier = (
        ends.join(f.broadcast(wanted.select(*KEY).distinct()), list(KEY), "left_semi")
        .unionByName(asked, allowMissingColumns=True)
        .withColumn("earlier", known)
        .where("is_move")
        .select(*KEY, "at_ts", "earlier")
    )
    found = f.coalesce("at_once", "earlier")["committed_offset"]
    return (
        moved.join(at_once, [*KEY, "at_ts"], "left")
        .join(earlier, [*KEY, "at_ts"], "left")
        .select(*moves.columns, found.alias("committed_at_handover"))
    )


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
