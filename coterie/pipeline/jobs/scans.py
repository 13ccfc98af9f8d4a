"""The sums over a store's large tables that workers compute file by file for the gold tables."""

import functools

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.jobs.file_scan import scan_files
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.store import Store
from coterie.pipeline.transforms import commit_runs, segment_sums
from coterie.pipeline.transforms.handovers import FOUND, newest_commits, with_dictionaries

_COMMITS = "offset_commits"


def commit_run_rows(spark: SparkSession, store: Store) -> DataFrame:
    """Sum all commits file by file, to rows of `commit_runs.RUNS`."""
    return scan_files(
        spark,
        store.files(_COMMITS),
        commit_runs.COLUMNS,
        commit_runs.commit_runs,
        commit_runs.RUNS,
        names=commit_runs.NAMES,
    )


def segment_sum_rows(spark: SparkSession, store: Store) -> DataFrame:
    """Sum all records of the group log file by file, to rows of `segment_sums.SUMS`."""
    return scan_files(
        spark,
        store.files("log_records"),
        segment_sums.COLUMNS,
        segment_sums.segment_sums,
        segment_sums.SUMS,
        names=segment_sums.NAMES,
    )


def handover_rows(spark: SparkSession, store: Store, moments: pa.Table) -> DataFrame:
    """Find the newest commits at some moments file by file, as rows of `handovers.FOUND`.

    Args:
        spark: the session.
        store: the store with the commits.
        moments: when partitions changed their owner (`handovers.MOMENTS`).
    """
    if not moments.num_rows:
        return spark.createDataFrame([], spark_schema(FOUND))
    work = functools.partial(newest_commits, moments=with_dictionaries(moments))
    return scan_files(
        spark, store.files(_COMMITS), commit_runs.COLUMNS, work, FOUND, names=commit_runs.NAMES
    )
