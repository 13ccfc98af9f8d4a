"""What workers sum up of a store's large tables, file by file, for the gold tables."""

import functools

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.jobs.file_scan import scan_files
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.store import Store
from coterie.pipeline.transforms import commit_runs, segment_sums
from coterie.pipeline.transforms.handovers import HANDED, as_wanted, handed_over

_COMMITS = "offset_commits"


def commit_run_rows(spark: SparkSession, store: Store) -> DataFrame:
    """All commits, summed up where they lie: `commit_runs.RUNS`."""
    return scan_files(
        spark,
        store.files(_COMMITS),
        commit_runs.COLUMNS,
        commit_runs.commit_runs,
        commit_runs.RUNS,
        names=commit_runs.NAMES,
    )


def segment_sum_rows(spark: SparkSession, store: Store) -> DataFrame:
    """All records of the group log, summed up where they lie: `segment_sums.SUMS`."""
    return scan_files(
        spark,
        store.files("log_records"),
        segment_sums.COLUMNS,
        segment_sums.segment_sums,
        segment_sums.SUMS,
        names=segment_sums.NAMES,
    )


def handed_over_rows(spark: SparkSession, store: Store, moments: pa.Table) -> DataFrame:
    """What the commits say of some moments: `handovers.HANDED`.

    Args:
        spark: the session.
        store: with the commits.
        moments: when partitions changed hands (`handovers.WANTED`).
    """
    if not moments.num_rows:
        return spark.createDataFrame([], spark_schema(HANDED))
    work = functools.partial(handed_over, wanted=as_wanted(moments))
    return scan_files(
        spark, store.files(_COMMITS), commit_runs.COLUMNS, work, HANDED, names=commit_runs.NAMES
    )
