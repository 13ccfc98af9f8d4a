"""The log itself, a segment at a time: how much of it is outdated, deleted or damaged."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from coterie.pipeline.segments import OFFSETS_TOPIC
from protocol.record_batch import HAS_DELETE_HORIZON

_SEGMENT = ("input", "log_partition", "segment_base")


def log_health(records: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Every segment of the group log, as it was when its records were read.

    `keys` are different ones within the segment; `bytes` are those of keys and values.

    Args:
        records: `log_records`.
        quarantine: the table of that name.
    """
    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(
        f.octet_length("value"), f.lit(0)
    )
    by_key = records.groupBy(*_SEGMENT, "key").agg(
        f.count("*").alias("records"),
        f.count_if(f.col("value").isNull() & f.col("key").isNotNull()).alias("tombstones"),
        f.min("log_offset").alias("first_offset"),
        f.max("log_offset").alias("last_offset"),
        f.sum(size).alias("bytes"),
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
    # A segment may hold nothing but damage.
    return (
        segments.join(_batches(records), list(_SEGMENT))
        .join(_quarantined(quarantine), list(_SEGMENT), "full")
        .select(
            *_SEGMENT,
            f.coalesce("records", f.lit(0)).alias("records"),
            f.coalesce("keys", f.lit(0)).alias("keys"),
            (1 - f.col("keys") / f.nullif("keyed", f.lit(0))).alias("duplicate_ratio"),
            f.coalesce("tombstones", f.lit(0)).alias("tombstones"),
            f.coalesce("batches", f.lit(0)).alias("batches"),
            f.coalesce("horizon_batches", f.lit(0)).alias("horizon_batches"),
            f.coalesce("quarantined", f.lit(0)).alias("quarantined"),
            "first_offset",
            "last_offset",
            f.coalesce("bytes", f.lit(0)).alias("bytes"),
        )
    )


def _batches(records: DataFrame) -> DataFrame:
    """How many batches there are, and how many with a delete horizon.

    Distinct base offsets, counted in bitmaps: there may be a batch for every record.
    """
    base = f.col("batch_base_offset")
    horizon = f.col("attributes").bitwiseAND(HAS_DELETE_HORIZON) != 0
    # Null where there is none, which no bitmap has.
    position = f.bitmap_bit_position(base)
    counted = records.groupBy(*_SEGMENT, f.bitmap_bucket_number(base).alias("bucket")).agg(
        f.bitmap_count(f.bitmap_construct_agg(position)).alias("batches"),
        f.bitmap_count(f.bitmap_construct_agg(f.when(horizon, position))).alias("horizon_batches"),
    )
    return counted.groupBy(*_SEGMENT).agg(
        f.sum("batches").alias("batches"), f.sum("horizon_batches").alias("horizon_batches")
    )


def _quarantined(quarantine: DataFrame) -> DataFrame:
    base = f.regexp_extract("file", r"(\d{20})\.log[^/]*$", 1)
    directory = f.regexp_extract("file", r"([^/]+)-\d+/[^/]*$", 1)
    return (
        quarantine.where(directory == OFFSETS_TOPIC)
        .withColumn("segment_base", base.try_cast("bigint"))
        .groupBy(*_SEGMENT)
        .agg(f.count("*").alias("quarantined"))
    )
