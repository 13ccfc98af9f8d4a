"""Findings and unowned commits from Spark's frames; the rules are those of `findings`."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from coterie.pipeline.findings.across import all_findings, end_of_records, finding_rows
from coterie.pipeline.findings.commits import ZOMBIE_GRACE_MS
from coterie.pipeline.findings.of_group import findings_by_group
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.progress import KEY
from coterie.pipeline.transforms.unowned import UNOWNED, unowned

__all__ = ["OFFSETS_RETENTION_MS", "Tables", "anomalies", "without_owner"]

_FOREVER_MS = 1 << 62
# About 100 MB, with numpy's intermediate arrays.
_ROWS_OF_A_WORKER = 500_000


class Tables(NamedTuple):
    """The input of the rules.

    Attributes:
        minutes: see `progress.commit_minutes`; the others are the tables of their names.
        retention_ms: how long the offsets of a group without members are kept.
    """

    rebalances: DataFrame
    ownership: DataFrame
    member_sessions: DataFrame
    group_generations: DataFrame
    minutes: DataFrame
    lag_1m: DataFrame
    retention_ms: int = OFFSETS_RETENTION_MS


def anomalies(tables: Tables) -> DataFrame:
    """Return the findings of all rules."""
    found = {name: getattr(tables, name).toArrow() for name in Tables._fields[:-1]}
    now_ms = end_of_records(
        _latest(found[table], column)
        for table, column in (
            ("minutes", "last_ts"), ("rebalances", "completed_ts"), ("lag_1m", "window_start_ts")
        )
    )  # fmt: skip
    of_groups = findings_by_group(found, now_ms, tables.retention_ms)
    rows = finding_rows(all_findings(of_groups, found["rebalances"], (), now_ms))
    schema = TABLES["anomalies"].schema
    table = pa.Table.from_pylist(rows, schema)
    return tables.rebalances.sparkSession.createDataFrame(table, spark_schema(schema))


def _latest(table: pa.Table, column: str) -> Any:
    """Return the largest time of a column in epoch milliseconds; None without rows."""
    newest = pc.max(table.column(column)).as_py()
    return None if newest is None else round(newest.timestamp() * 1000)


def without_owner(commits: DataFrame, ownership: DataFrame, count: int = 0) -> DataFrame:
    """Return the commits of partitions that no member owned while the group had members.

    Args:
        commits: the key of a partition, `first_ts`, `last_ts` and `commits`: several commits
            together, or each on its own.
        ownership: the table of that name.
        count: the number of rows of commits, if it is known, so that no worker gets more of them
            than fit into its memory.
    """
    owned = ownership.select(
        *KEY,
        f.unix_millis("from_ts").alias("from_ms"),
        f.coalesce(f.unix_millis("to_ts"), f.lit(_FOREVER_MS)).alias("to_ms"),
    )
    made = commits.where(f.col("commits") > 0).select(
        *UNOWNED.names[:-1],
        f.col("commits").cast("bigint"),
        (f.unix_millis("first_ts") - ZOMBIE_GRACE_MS).alias("from_ms"),
        (f.unix_millis("last_ts") + ZOMBIE_GRACE_MS).alias("to_ms"),
    )
    both = made.unionByName(owned, allowMissingColumns=True)
    if count:
        both = both.repartition(1 + count // _ROWS_OF_A_WORKER, "group_id")
    else:
        both = both.repartition("group_id")
    return both.mapInArrow(unowned, spark_schema(UNOWNED))
