"""One run: it copies what is new in the logs to bronze and brings every table up to date.

    with start_session() as spark:
        report = run(spark, ["/var/lib/kafka"], "/data/forensics")

A run commits everything that it writes in one step, with the manifest. A killed run has no effect,
and the next one repeats its work [pipeline/manifest]. A log can be compacted between two runs: what
was read before remains in bronze. A run that finds nothing new writes nothing.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.jobs import scans
from coterie.pipeline.jobs.ingest import (
    QUARANTINE,
    copy_tasks,
    copying,
    decoding,
    decoding_tasks,
)
from coterie.pipeline.jobs.inputs import Plan, plan
from coterie.pipeline.jobs.part_files import PartFiles, write_parts
from coterie.pipeline.kafka_input import TABLE_OF, is_kafka
from coterie.pipeline.store import Positions, Store
from coterie.pipeline.tables import GOLD, TABLES
from coterie.pipeline.transforms import histories as group_histories
from coterie.pipeline.transforms import progress as commit_progress
from coterie.pipeline.transforms import silver
from coterie.pipeline.transforms.anomalies import OFFSETS_RETENTION_MS, Tables, anomalies
from coterie.pipeline.transforms.health import log_health

if TYPE_CHECKING:
    from coterie.pipeline.jobs.clusters import Copied
    from coterie.pipeline.jobs.connector import Connector
    from coterie.pipeline.kafka_input import CopyProgress

INGEST, BUILD = "ingest", "build"

_SETTINGS = {
    # Every reader of Parquet understands these times, and they have statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The decoder works on arrays. With Spark's default of 10,000 rows the fixed cost of numpy's
    # calls would be a large part of its time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "40000",
}
_LOG_END_SCHEMA = "topic string, partition int, at_ts timestamp, log_end_offset bigint"


class Step(NamedTuple):
    """The writing of one table.

    Attributes:
        stage: ingest or build.
        table: its name.
        number, total: the number of the step, and the number of steps of the run.
        rows, size_bytes, seconds: the result; None while the table is being written.
    """

    stage: str
    table: str
    number: int
    total: int
    rows: int | None = None
    size_bytes: int | None = None
    seconds: float | None = None


Progress = Callable[[Step], None]


class RunReport(NamedTuple):
    """The result of a run.

    Attributes:
        number: the run's number; None if there was nothing to do.
        steps: the tables that were written, in order.
        warnings: messages about the inputs.
        seconds: the duration of the whole run.
        input_bytes: about how much log was read.
    """

    number: int | None
    steps: list[Step]
    warnings: list[str]
    seconds: float
    input_bytes: int = 0

    def rows(self, stage: str) -> int:
        """Return the number of rows written in a stage."""
        return sum(step.rows or 0 for step in self.steps if step.stage == stage)

    def stage_seconds(self, stage: str) -> float:
        """Return the time spent on a stage."""
        return sum(step.seconds or 0.0 for step in self.steps if step.stage == stage)


def run(
    spark: SparkSession,
    inputs: Iterable[str],
    output: str,
    *,
    log_ends: "str | DataFrame | None" = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
    rebuild: bool = False,
    crc: bool = True,
    connector: "Connector | None" = None,
    progress: Progress | None = None,
    copying: "CopyProgress | None" = None,
) -> RunReport:
    """Read what is new and bring every table up to date.

    Args:
        spark: a session of `coterie.pipeline.session`.
        inputs: data directories, ours or a Kafka's, and clusters: kafka://HOST:PORT.
        output: the directory of the tables.
        log_ends: log-end offsets over time (`topic, partition, at_ts, log_end_offset`), as a frame
            or as the path of Parquet or of CSV with a header; None for those that were requested
            from clusters. Without them every lag is unknown.
        retention_ms: how long the brokers keep the offsets of a group without members.
        rebuild: decode everything again that was ever read.
        crc: whether to check checksums.
        connector: read clusters with Spark's Kafka connector; None for our own client.
        progress: is called when a step begins and when it ends.
        copying: is called with the progress of copying clusters.

    Raises:
        ClientError: a cluster cannot be reached, refuses a request, or has a shorter log than
            before.
        NoSuchLog: an input is not a data directory.
        StoreError: the output directory cannot be used.
    """
    began = time.monotonic()
    inputs = list(inputs)
    sources = [each for each in inputs if is_kafka(each)]
    copied: list[Copied] = []
    # Imported here, because only clusters need these modules.
    if sources and connector is not None:
        from coterie.pipeline.jobs.connector import copy_by_connector

        copied = copy_by_connector(spark, sources, output, connector, copying)
    elif sources:
        from coterie.pipeline.jobs.clusters import copy_clusters

        copied = copy_clusters(sources, output, copying, crc=crc)
    with Store.open(output) as store:
        planned = plan(store, [each for each in inputs if not is_kafka(each)])
        job = Job(spark, store, progress, planned.about)
        ingest(job, planned, crc=crc)
        build(job, log_ends=log_ends, retention_ms=retention_ms, rebuild=rebuild)
        report = job.finish(
            planned.positions,
            warnings=planned.warnings,
            seconds=time.monotonic() - began,
            input_bytes=planned.size_bytes,
        )
    return report._replace(
        steps=[*_copy_steps(copied), *report.steps],
        input_bytes=report.input_bytes + sum(each.size_bytes for each in copied),
    )


def _copy_steps(copied: "list[Copied]") -> list[Step]:
    """Return the steps of copies; a copy writes all of its tables at the same time."""
    written = [(table, part, each) for each in copied for table, part in each.tables.items()]
    return [
        Step(INGEST, table, number, len(written), part["rows"], part["bytes"], each.seconds)
        for number, (table, part, each) in enumerate(written, 1)
    ]


class Job:
    """The writing of tables in one run, step by step.

    Attributes:
        spark, store: as given.
        steps: the tables that were written so far.
        options: values that the manifest stores with the run.
        labels: by input the label of its groups [pipeline/group-labels].
    """

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        progress: Progress | None = None,
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Prepare the session for writing tables.

        Args:
            spark: the session.
            store: the output directory, open for writing.
            progress: is called when a step begins and when it ends.
            about: what the manifest will store about inputs; see `jobs.inputs.Plan`.
        """
        self.spark = spark
        self.store = store
        self._about = dict(about or {})
        known = {source: store.about(source) for source in store.inputs} | self._about
        self.labels: dict[str, str] = {
            source: stored.get("label", "") for source, stored in known.items()
        }
        self.steps: list[Step] = []
        self.options: dict[str, Any] = {}
        self._progress = progress
        self._planned = 0
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)

    def expect(self, tables: int) -> None:
        """Announce that this many more tables will be written."""
        self._planned += tables

    def write(self, stage: str, table: str, frame: DataFrame, *, replace: bool = False) -> None:
        """Write a part of a table."""
        number = len(self.steps) + 1
        step = Step(stage, table, number, max(self._planned, number))
        self._report(step)
        began = time.monotonic()
        part = self.store.write(table, frame, replace=replace)
        seconds = time.monotonic() - began
        step = step._replace(rows=part["rows"], size_bytes=part["bytes"], seconds=seconds)
        self.steps.append(step)
        self._report(step)

    def write_files(
        self,
        stage: str,
        tables: list[str],
        tasks: int,
        work: Callable[[int, PartFiles], None],
        *,
        replace: bool = False,
    ) -> None:
        """Let workers write a part of each of some tables at the same time (`write_parts`)."""
        first = len(self.steps) + 1
        total = max(self._planned, first)
        self._report(Step(stage, tables[0], first, total))
        began = time.monotonic()

        def write(directories: Mapping[str, str]) -> None:
            write_parts(self.spark, directories, tasks, work)

        written = self.store.write_files(tables, write, replace=replace)
        seconds = time.monotonic() - began
        for number, (table, part) in enumerate(written.items(), first):
            step = Step(stage, table, number, total, part["rows"], part["bytes"], seconds)
            self.steps.append(step)
            self._report(step)
            # The other tables were written in the same time.
            seconds = 0.0

    def read(self, table: str) -> DataFrame:
        """Return a table, including what this run has written."""
        return self.store.read(self.spark, table)

    def finish(
        self,
        positions: Positions | None = None,
        *,
        warnings: list[str] | None = None,
        seconds: float | None = None,
        input_bytes: int = 0,
    ) -> RunReport:
        """Commit what was written; if nothing was written, nothing changes."""
        seconds = sum(step.seconds or 0.0 for step in self.steps) if seconds is None else seconds
        report = RunReport(None, self.steps, warnings or [], seconds, input_bytes)
        if not self.store.has_written:
            return report
        number = self.store.next_run
        entry = {
            "run": number,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
            "input_bytes": input_bytes,
            "options": self.options,
            "tables": {
                step.table: {
                    "rows": step.rows,
                    "bytes": step.size_bytes,
                    "seconds": round(step.seconds or 0.0, 3),
                }
                for step in self.steps
            },
        }
        self.store.commit(positions or {}, entry, self._about)
        return report._replace(number=number)

    def _report(self, step: Step) -> None:
        if self._progress is not None:
            self._progress(step)


def ingest(job: Job, planned: Plan, *, crc: bool = True) -> None:
    """Copy new records, as bytes, and damage to bronze."""
    if not planned.new:
        return
    tasks = copy_tasks(planned.new)
    tables = [*dict.fromkeys(TABLE_OF[task.topic] for task in tasks), QUARANTINE]
    job.expect(len(tables))
    job.write_files(INGEST, tables, len(tasks), copying(tasks, crc=crc))


def build(
    job: Job,
    *,
    log_ends: "str | DataFrame | None" = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
    rebuild: bool = False,
) -> None:
    """Decode what is new in bronze, and build the other tables again if anything is new.

    Args:
        job: the job, which may have written bronze parts.
        log_ends, retention_ms: see `run`.
        rebuild: whether to treat all of bronze as new.
    """
    if log_ends is None and job.store.parts("log_ends"):
        # Requested by the runs that copied from clusters.
        log_ends = job.read("log_ends")
        is_new_lag = bool(job.store.parts("log_ends", newer_than="lag_1m"))
    else:
        is_new_lag = _is_new(job, log_ends)
    # An earlier run may have decoded parts without building gold from them.
    behind = job.store.parts("offset_commits", newer_than="rebalances") + job.store.parts(
        "group_events", newer_than="rebalances"
    )
    if decode(job, rebuild=rebuild) or is_new_lag or behind:
        build_gold(job, log_ends=log_ends, retention_ms=retention_ms)


def decode(job: Job, *, rebuild: bool = False) -> bool:
    """Decode what is new in bronze to silver, and return whether anything was new.

    Args:
        job: the job, which may have written bronze parts.
        rebuild: whether to treat all of bronze as new.
    """
    store = job.store
    logs = store.parts("log_records", newer_than=None if rebuild else "offset_commits")
    journals = store.parts("journal_records", newer_than=None if rebuild else "group_events")
    job.expect((3 if logs else 0) + (1 if journals else 0))
    if logs:
        _decode_log(job, logs, rebuild=rebuild)
    if journals:
        new = store.read(job.spark, "journal_records", journals)
        job.write(BUILD, "group_events", silver.group_events(new, job.labels), replace=rebuild)
    return bool(logs or journals)


_REBUILT = ("ownership", *(name for name, table in TABLES.items() if table.level == GOLD))


def _decode_log(job: Job, parts: list[str], *, rebuild: bool) -> None:
    """Decode new parts of `log_records`."""
    store, spark = job.store, job.spark
    labels = job.labels
    new = store.read(spark, "log_records", parts)
    if new.where(silver.is_marker()).isEmpty():
        tasks = decoding_tasks(store.files("log_records", parts))
        work = decoding(tasks, labels)
        job.write_files(BUILD, ["offset_commits"], len(tasks), work, replace=rebuild)
    else:
        # A marker can end a transaction whose commits an earlier run has read.
        others = [part for part in store.parts("log_records") if part not in parts]
        older = store.read(spark, "log_records", others)
        commits = silver.offset_commits(new, labels, older)
        job.write(BUILD, "offset_commits", commits, replace=rebuild)
    epochs = silver.consumer_epochs(new, labels)
    job.write(BUILD, "consumer_epochs", epochs, replace=rebuild)
    known = None if rebuild else store.read(spark, "group_generations")
    job.write(BUILD, "group_generations", silver.group_generations(new, labels, known))


def build_gold(
    job: Job,
    *,
    log_ends: "str | DataFrame | None" = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
) -> None:
    """Build ownership and gold from silver.

    Args:
        job: the job, which may have written silver parts.
        log_ends, retention_ms: see `run`.
    """
    job.expect(len(_REBUILT))
    runs = scans.commit_run_rows(job.spark, job.store)
    with (
        _kept(_histories(job)) as histories,
        _kept(commit_progress.commit_minutes(runs)) as summed,
    ):
        tables = group_histories.split_histories(histories)
        rebalances = commit_progress.without_spark_groups(tables.rebalances)
        job.write(BUILD, "rebalances", rebalances)
        job.write(BUILD, "ownership", tables.ownership)
        sessions = commit_progress.without_spark_groups(tables.member_sessions)
        job.write(BUILD, "member_sessions", sessions)
        minutes = commit_progress.with_overlaps(summed, job.read("offset_commits"))
        job.write(BUILD, "commit_velocity_1m", minutes)
        moves = tables.partition_moves
        moments = commit_progress.moments(moves).toArrow()
        newest = scans.handover_rows(job.spark, job.store, moments)
        moves = commit_progress.with_handover(moves, moments, minutes, newest)
        job.write(BUILD, "partition_moves", moves)
        ends = _read_log_ends(job.spark, log_ends)
        job.write(BUILD, "lag_1m", commit_progress.lag_1m(minutes, ends))
        with _kept(scans.segment_sum_rows(job.spark, job.store)) as sums:
            job.write(BUILD, "log_health", log_health(sums, job.read("quarantine")))
        inputs = Tables(
            job.read("rebalances"),
            job.read("ownership"),
            job.read("member_sessions"),
            job.read("group_generations"),
            minutes,
            job.read("lag_1m"),
            retention_ms,
        )
        job.write(BUILD, "anomalies", anomalies(inputs))


def _histories(job: Job) -> DataFrame:
    epochs = job.read("consumer_epochs")
    return group_histories.histories(
        job.read("journal_records"),
        job.read("group_generations"),
        epochs,
        job.labels,
        group_histories.topic_names(epochs, job.read("offset_commits")),
    )


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep the rows of a frame until the end of the block, so that they are computed once."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _read_log_ends(spark: SparkSession, log_ends: "str | DataFrame | None") -> DataFrame | None:
    if not isinstance(log_ends, str):
        return log_ends
    if log_ends.endswith(".csv"):
        return spark.read.schema(_LOG_END_SCHEMA).option("header", True).csv(log_ends)
    return spark.read.schema(_LOG_END_SCHEMA).parquet(log_ends)


def _is_new(job: Job, log_ends: "str | DataFrame | None") -> bool:
    """Return whether the last run had other log ends. A frame counts as new."""
    seen = job.options["log_ends"] = _fingerprint(log_ends)
    known = job.store.runs[-1].get("options", {}) if job.store.runs else {}
    return log_ends is not None and (seen is None or seen != known.get("log_ends"))


def _fingerprint(log_ends: "str | DataFrame | None") -> list[Any] | None:
    """Return path, size and time of a file of log ends; None for what cannot be compared."""
    if not isinstance(log_ends, str) or not os.path.isfile(log_ends):
        return None
    status = os.stat(log_ends)
    return [os.path.realpath(log_ends), status.st_size, status.st_mtime_ns]
