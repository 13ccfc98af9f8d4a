"""From silver to gold: three steps of tasks, between which rows are brought together by group.

1. Files are read; commits and records are summed, and the records of groups are passed on.
2. The histories of each group are worked out, and its commits are summed by minute.
3. If partitions moved, the commits are read once more for those that were the newest then. Then the
   rows of each group's tables are written, and the findings about it.
"""

import os
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.exchange import Exchange, Outbox, exchange
from coterie.pipeline.jobs import group_records
from coterie.pipeline.jobs import log_ends as ends_of
from coterie.pipeline.jobs.group_records import Labels
from coterie.pipeline.jobs.job import BUILD, Job
from coterie.pipeline.part_files import PartFiles, Share, read_files, read_share, shares
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.tables import GOLD, TABLES
from coterie.pipeline.transforms import commit_runs, handovers, health, histories, segment_sums
from coterie.pipeline.transforms.anomalies import OFFSETS_RETENTION_MS, Tables, anomalies
from coterie.pipeline.transforms.decoding import LABEL_MARK
from coterie.pipeline.transforms.lag import lag_1m
from coterie.pipeline.transforms.progress import (
    KEY,
    are_among,
    commit_minutes,
    with_handover,
    with_overlaps,
    without_spark_groups,
)

# The rows that a task processes at a time, about 50 MB. Numpy sorts smaller arrays faster for their
# size, but then more partial sums remain to be joined.
_BATCH_ROWS = 500_000

_COMMIT_COLUMNS = pa.schema(
    [TABLES["offset_commits"].schema.field(name) for name in commit_runs.COLUMNS]
)
_RECORD_COLUMNS = pa.schema(
    [TABLES["log_records"].schema.field(name) for name in segment_sums.COLUMNS]
)
_SOURCES = ("offset_commits", "journal_records", "group_generations", "consumer_epochs",
            "log_records", "quarantine")  # fmt: skip
_READ = {
    "runs": commit_runs.RUNS,
    **histories.HISTORY_ROWS,
    "sums": segment_sums.SUMS,
    "damaged": health.DAMAGED,
}
_WORKED_OUT = {"minutes": commit_runs.MINUTES, **histories.HISTORY_TABLES}
_SOUGHT = {"newest": handovers.FOUND, "overlapping": _COMMIT_COLUMNS}

# The tables that `build_gold` writes.
BUILT = (
    "ownership",
    *(name for name, table in TABLES.items() if table.level == GOLD and name != "anomalies"),
)


def build_gold(
    job: Job, *, log_ends: str | None = None, retention_ms: int = OFFSETS_RETENTION_MS
) -> None:
    """Build ownership and gold from silver.

    Args:
        job: the job, which may have written silver parts.
        log_ends, retention_ms: see `run`.
    """
    job.expect(len(BUILT))
    store = job.store
    rows = sum(store.rows(table) for table in _SOURCES[1:4]) + store.rows("offset_commits") // 10
    buckets = job.engine.buckets(rows)
    with job.writing(BUILD, BUILT) as output:
        read = _read(job, buckets)
        worked_out = _work_out(job, read)
        sought = _seek(job, worked_out)
        gold = _Gold(read, worked_out, sought, ends_of.files_of(job, log_ends), dict(job.labels))
        directories = output.directories

        def write(bucket: int) -> list[str]:
            files = PartFiles(directories)
            gold.write(bucket, files)
            return files.close()

        output.finish(job.engine.run(buckets, write))
    _find(job, worked_out, retention_ms)


def _find(job: Job, worked_out: Exchange, retention_ms: int) -> None:
    """Write the findings, which the engine `spark` computes for now."""
    if not isinstance(job.engine, SparkEngine):
        return
    spark = job.engine.spark
    path = os.path.join(job.scratch, "minutes.parquet")
    pq.write_table(worked_out.rows("minutes").drop_columns(["overlaps"]), path)

    def read(table: str) -> Any:
        schema = spark_schema(TABLES[table].schema)
        files = job.store.files(table)
        return (
            spark.read.schema(schema).parquet(*files)
            if files
            else spark.createDataFrame([], schema)
        )

    names = ("rebalances", "ownership", "member_sessions", "group_generations")
    tables = Tables(*map(read, names), spark.read.parquet(path), read("lag_1m"), retention_ms)
    with job.writing(BUILD, ["anomalies"]) as output:
        rows = anomalies(tables).toArrow()
        files = PartFiles(output.directories)
        files.write("anomalies", rows.cast(TABLES["anomalies"].schema))
        output.finish([files.close()])


def _read(job: Job, buckets: int) -> Exchange:
    """Read the files, and pass on sums and the records of groups."""
    store, labels = job.store, job.labels
    tasks = [(table, task) for table in _SOURCES for task in shares(store.files(table))]

    def work(number: int, outbox: Outbox) -> None:
        table, task = tasks[number]
        _READERS[table](task, outbox, labels)

    return exchange(job.engine, job.scratch, _READ, buckets, len(tasks), work)[0]


def _read_commits(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, _COMMIT_COLUMNS, _BATCH_ROWS, commit_runs.NAMES):
        outbox.add("runs", commit_runs.commit_runs(rows))


def _read_records(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, _RECORD_COLUMNS, _BATCH_ROWS, segment_sums.NAMES):
        sums = pa.Table.from_batches([segment_sums.segment_sums(rows)])
        outbox.add("sums", sums, health.segment_codes(sums))


def _read_quarantine(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, health.QUARANTINE_COLUMNS, _BATCH_ROWS):
        damaged = health.damaged(rows)
        outbox.add("damaged", damaged, health.segment_codes(damaged))


_READERS = group_records.READERS | {
    "offset_commits": _read_commits,
    "log_records": _read_records,
    "quarantine": _read_quarantine,
}


def _work_out(job: Job, read: Exchange) -> Exchange:
    """Work out the histories and the minutes of each group."""
    names = group_records.topic_names(job.engine, job.store)

    def work(bucket: int, outbox: Outbox) -> None:
        outbox.put("minutes", commit_minutes(read.rows("runs", bucket)), bucket)
        records = {kind: read.rows(kind, bucket) for kind in histories.HISTORY_ROWS}
        found = histories.history_rows(histories.records_by_group(records), names)
        for table in ("rebalances", "member_sessions"):
            found[table] = without_spark_groups(found[table])
        for kind, rows in found.items():
            outbox.put(kind, rows, bucket)

    return exchange(job.engine, job.scratch, _WORKED_OUT, read.buckets, read.buckets, work)[0]


def _seek(job: Job, worked_out: Exchange) -> Exchange:
    """Read the commits again for those at moves, and those of partitions whose runs overlap."""
    nothing = Exchange(_SOUGHT, worked_out.buckets, [])
    if not (worked_out.count("partition_moves") and worked_out.count("minutes")):
        moments = None
    else:
        moments = worked_out.rows("partition_moves", columns=handovers.MOMENTS.names)
        moments = moments.filter(moments.column("at_ts").is_valid())
    minutes = worked_out.rows("minutes", columns=[*KEY, "overlaps"])
    overlapping = minutes.filter(minutes.column("overlaps")).select(KEY)
    if moments is None and not overlapping.num_rows:
        return nothing
    sought = handovers.MOMENTS.empty_table() if moments is None else moments
    tasks = shares(job.store.files("offset_commits"))

    def work(number: int, outbox: Outbox) -> None:
        encoded = handovers.with_dictionaries(sought)
        for rows in read_share(tasks[number], _COMMIT_COLUMNS, _BATCH_ROWS, commit_runs.NAMES):
            if encoded.num_rows:
                outbox.add("newest", handovers.newest_commits(rows, encoded))
            if overlapping.num_rows:
                plain = pa.Table.from_batches([rows]).cast(_COMMIT_COLUMNS)
                outbox.add("overlapping", plain.filter(pa.array(are_among(plain, overlapping))))

    return exchange(job.engine, job.scratch, _SOUGHT, worked_out.buckets, len(tasks), work)[0]


class _Gold(NamedTuple):
    """The rows from which a bucket's tables are made; it is sent to the workers.

    Attributes:
        read, worked_out, sought: of the steps before.
        log_ends: Parquet files of log ends; none if they are not known.
        labels: by input the label of its groups.
    """

    read: Exchange
    worked_out: Exchange
    sought: Exchange
    log_ends: list[str]
    labels: Labels

    def write(self, bucket: int, files: PartFiles) -> None:
        """Write the tables of the groups and segments in a bucket."""
        found = {kind: self.worked_out.rows(kind, bucket) for kind in _WORKED_OUT}
        minutes = with_overlaps(found["minutes"], self.sought.rows("overlapping", bucket))
        newest = self.sought.rows("newest", bucket)
        moves = with_handover(found["partition_moves"], minutes, newest)
        lag = lag_1m(minutes, self._ends(minutes), self._input_of)
        sums, damaged = (self.read.rows(kind, bucket) for kind in ("sums", "damaged"))
        for table in ("rebalances", "ownership", "member_sessions"):
            files.write(table, found[table])
        files.write("commit_velocity_1m", minutes)
        files.write("partition_moves", moves)
        files.write("lag_1m", lag)
        files.write("log_health", health.log_health(sums, damaged))

    def _ends(self, minutes: pa.Table) -> pa.Table | None:
        """Return the log ends of the topics that the groups of the bucket have committed to."""
        if not self.log_ends:
            return None
        ends = read_files(self.log_ends, TABLES["log_ends"].schema)
        names = pa.array(minutes.column("topic").unique().to_pylist(), pa.string())
        return ends.filter(pc.is_in(ends.column("topic"), names))

    def _input_of(self, group_id: str) -> str:
        """Return the input of a group; groups of every input but the first have its label."""
        own = [(label, source) for source, label in self.labels.items() if label]
        for label, source in own:
            if group_id.endswith(LABEL_MARK + label):
                return source
        return next((source for source, label in self.labels.items() if not label), "")
