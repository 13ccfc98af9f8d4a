"""The state of the log by segment: how much of it is outdated, deleted or damaged."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from coterie.pipeline.transforms.segment_sums import OF_BATCHES, OF_BORDER, OF_KEY
from coterie.protocol.topic_names import OFFSETS_TOPIC

_SEGMENT = ("input", "log_partition", "segment_base")
_COUNTED = ("batches", "horizon_batches")


def log_health(sums: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return a row for each segment of the group log [pipeline/log-health].

    `bytes` are those of keys and values.

    Args:
        sums: the sums of `log_records`, see `segment_sums`.
        quarantine: the table of that name.
    """
    of_keys = sums.where(f.col("kind") == OF_KEY)
    by_key = of_keys.groupBy(*_SEGMENT, "key").agg(
        f.sum("records").alias("records"),
        f.sum("tombstones").alias("tombstones"),
        f.min("first_offset").alias("first_offset"),
        f.max("last_offset").alias("last_offset"),
        f.sum("bytes").alias("bytes"),
    )
    segments = by_key.groupBy(*_SEGMENT).agg(
        f.sum("records").alias("records"),
        f.count("key").alias("keys"),
        f.sum("tombstones").alias("tombstones"),
        f.min("first_offset").alias("first_offset"),
        f.max("last_offset").alias("last_offset"),
        f.sum("bytes").alias("bytes"),
        f.sum(f.when(f.col("key").isNotNull(), f.col("records"))).alias("keyed"),
    )
    # A segment may contain nothing but damage, hence the full join.
    return (
        segments.join(_batches(sums), list(_SEGMENT), "left")
        .join(_quarantined(quarantine), list(_SEGMENT), "full")
        .select(
            *_SEGMENT,
            f.coalesce("records", f.lit(0)).alias("records"),
            f.coalesce("keys", f.lit(0)).alias("keys"),
            (1 - f.col("keys") / f.nullif("keyed", f.lit(0))).alias("duplicate_ratio"),
            f.coalesce("tombstones", f.lit(0)).alias("tombstones"),
            _of_records("batches"),
            _of_records("horizon_batches"),
            f.coalesce("quarantined", f.lit(0)).alias("quarantined"),
            "first_offset",
            "last_offset",
            f.coalesce("bytes", f.lit(0)).alias("bytes"),
        )
    )


def _of_records(name: str) -> Column:
    """Return a number that is null if it is unknown, and 0 for a segment without records."""
    return f.when(f.col("records").isNull(), f.lit(0)).otherwise(f.col(name)).alias(name)


def _batches(sums: DataFrame) -> DataFrame:
    """Count the batches, and those with a delete horizon."""
    # Two neighbouring stretches both report a batch that lies in both, with its base offset.
    borders = sums.where(f.col("kind") == OF_BORDER).dropDuplicates([*_SEGMENT, "first_offset"])
    counted = sums.where(f.col("kind") == OF_BATCHES).unionByName(borders)
    return counted.groupBy(*_SEGMENT).agg(*(f.sum(name).alias(name) for name in _COUNTED))


def _quarantined(quarantine: DataFrame) -> DataFrame:
    base = f.regexp_extract("file", r"(\d{20})\.log[^/]*$", 1)
    directory = f.regexp_extract("file", r"([^/]+)-\d+/[^/]*$", 1)
    return (
        quarantine.where(directory == OFFSETS_TOPIC)
        .withColumn("segment_base", base.try_cast("bigint"))
        .groupBy(*_SEGMENT)
        .agg(f.count("*").alias("quarantined"))
    )
