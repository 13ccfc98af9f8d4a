"""One run: what is new in the logs becomes bronze, and every table is brought up to date.

    with start_session() as spark:
        report = run(spark, ["/var/lib/kafka"], "/data/forensics")

Everything a run writes counts at once, when its manifest does; a run that is killed has done
nothing, and the next one does it again. Positions are log offsets, so a log may be compacted
between two runs: what was read before stays in bronze. A run that finds nothing new writes nothing.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.jobs import scans
from coterie.pipeline.jobs.ingest import QUARANTINE, copies, copying, decoding, decodings
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
    # Times that every reader of Parquet understands, and statistics over them.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The decoder works on arrays; Spark's 10,000 rows keep numpy waiting for its calls.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "40000",
}
_LOG_END_SCHEMA = "topic string, partition int, at_ts timestamp, log_end_offset bigint"


class Step(NamedTuple):
    """A table that is written, or was.

    Attributes:
        stage: ingest or build.
        table: its name.
        number, total: which of how many steps of the run it is.
        rows, size_bytes, seconds: what was written; None while it is under way.
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
    """What a run did.

    Attributes:
        number: of the run; None if there was nothing to do.
        steps: the tables that were written, in order.
        warnings: about the inputs, for people.
        seconds: from beginning to end.
        input_bytes: log that was read, about.
    """

    number: int | None
    steps: list[Step]
    warnings: list[str]
    seconds: float
    input_bytes: int = 0

    def rows(self, stage: str) -> int:
        """Rows written in a stage."""
        return sum(step.rows or 0 for step in self.steps if step.stage == stage)

    def stage_seconds(self, stage: str) -> float:
        """Time spent on a stage."""
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
            or as the path of Parquet or of CSV with a header; None for those that clusters were
            asked for. Without them lag is not known.
        retention_ms: how long the brokers keep offsets of a group without members.
        rebuild: decode everything that was ever read again.
        crc: whether to check checksums.
        connector: read clusters through Spark's Kafka connector; None for our own client.
        progress: is told when a step begins and ends.
        copying: is told how far a cluster has been copied.

    Raises:
        ClientError: a cluster can't be reached, refuses, or its log is shorter than it was.
        NoSuchLog: an input is none.
        StoreError: the output can't be used.
    """
    began = time.monotonic()
    inputs = list(inputs)
    sources = [each for each in inputs if is_kafka(each)]
    copied: list[Copied] = []
    # Clusters need clients, which files do not.
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
    """The tables that were copied from clusters; a copy writes all of its tables at once."""
    written = [(table, part, each) for each in copied for table, part in each.tables.items()]
    return [
        Step(INGEST, table, number, len(written), part["rows"], part["bytes"], each.seconds)
        for number, (table, part, each) in enumerate(written, 1)
    ]


class Job:
    """The writing of tables in one run, step by step.

    Attributes:
        spark, store: as given.
        steps: what was written so far.
        options: to be remembered with the run.
        labels: by input what stands behind its groups' ids (jobs/inputs.py).
    """

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        progress: Progress | None = None,
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Set what the session needs for the tables.

        Args:
            spark: the session.
            store: open for writing.
            progress: is told when a step begins and ends.
            about: what is known of inputs from now on; see `jobs.inputs.Plan`.
        """
        self.spark = spark
        self.store = store
        self._about = dict(about or {})
        known = {source: store.about(source) for source in store.inputs} | self._about
        self.labels: dict[str, str] = {
            source: told.get("label", "") for source, told in known.items()
        }
        self.steps: list[Step] = []
        self.options: dict[str, Any] = {}
        self._progress = progress
        self._planned = 0
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)

    def expect(self, tables: int) -> None:
        """So many more tables will be written."""
        self._planned += tables

    def write(self, stage: str, table: str, frame: DataFrame, *, replace: bool = False) -> None:
        """Write a part of a table."""
        number = len(self.steps) + 1
        step = Step(stage, table, number, max(self._planned, number))
        self._tell(step)
        began = time.monotonic()
        part = self.store.write(table, frame, replace=replace)
        seconds = time.monotonic() - began
        step = step._replace(rows=part["rows"], size_bytes=part["bytes"], seconds=seconds)
        self.steps.append(step)
        self._tell(step)

    def write_files(
        self,
        stage: str,
        tables: list[str],
        tasks: int,
        work: Callable[[int, PartFiles], None],
        *,
        replace: bool = False,
    ) -> None:
        """Write a part of each of some tables, all at once, by the workers (`write_parts`)."""
        first = len(self.steps) + 1
        total = max(self._planned, first)
        self._tell(Step(stage, tables[0], first, total))
        began = time.monotonic()

        def write(directories: Mapping[str, str]) -> None:
            write_parts(self.spark, directories, tasks, work)

        written = self.store.write_files(tables, write, replace=replace)
        seconds = time.monotonic() - began
        for number, (table, part) in enumerate(written.items(), first):
            step = Step(stage, table, number, total, part["rows"], part["bytes"], seconds)
            self.steps.append(step)
            self._tell(step)
            # The others were written within the same time.
            seconds = 0.0

    def read(self, table: str) -> DataFrame:
        """A table as it is, with what this run has written."""
        return self.store.read(self.spark, table)

    def finish(
        self,
        positions: Positions | None = None,
        *,
        warnings: list[str] | None = None,
        seconds: float | None = None,
        input_bytes: int = 0,
    ) -> RunReport:
        """Let it count; if nothing was written, nothing is changed."""
        seconds = sum(step.seconds or 0.0 for step in self.steps) if seconds is None else seconds
        report = RunReport(None, self.steps, warnings or [], seconds, input_bytes)
        if not self.store.has_written:
            return report
        number = self.store.next_run
        told = {
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
        self.store.commit(positions or {}, told, self._about)
        return report._replace(number=number)

    def _tell(self, step: Step) -> None:
        if self._progress is not None:
            self._progress(step)


def ingest(job: Job, planned: Plan, *, crc: bool = True) -> None:
    """Copy new records into bronze, as they are; and what is damaged."""
    if not planned.new:
        return
    tasks = copies(planned.new)
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
    """Decode what is new in bronze, and work out the other tables anew if anything is.

    Args:
        job: with or without bronze parts of its own.
        log_ends, retention_ms: see `run`.
        rebuild: as if everything were new.
    """
    if log_ends is None and job.store.parts("log_ends"):
        # Polled by the runs that copied from clusters.
        log_ends = job.read("log_ends")
        is_new_lag = bool(job.store.parts("log_ends", newer_than="lag_1m"))
    else:
        is_new_lag = _is_new(job, log_ends)
    # A run that only copied and decoded has left gold behind.
    behind = job.store.parts("offset_commits", newer_than="rebalances") + job.store.parts(
        "group_events", newer_than="rebalances"
    )
    if decode(job, rebuild=rebuild) or is_new_lag or behind:
        work_out(job, log_ends=log_ends, retention_ms=retention_ms)


def decode(job: Job, *, rebuild: bool = False) -> bool:
    """Decode what is new in bronze into silver; tells whether anything was.

    Args:
        job: with or without bronze parts of its own.
        rebuild: as if everything were new.
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
    """Silver of new parts of `log_records`."""
    store, spark = job.store, job.spark
    labels = job.labels
    new = store.read(spark, "log_records", parts)
    if new.where(silver.is_marker()).isEmpty():
        tasks = decodings(store.files("log_records", parts))
        work = decoding(tasks, labels)
        job.write_files(BUILD, ["offset_commits"], len(tasks), work, replace=rebuild)
    else:
        others = [part for part in store.parts("log_records") if part not in parts]
        older = store.read(spark, "log_records", others)
        commits = silver.offset_commits(new, labels, older)
        job.write(BUILD, "offset_commits", commits, replace=rebuild)
    epochs = silver.consumer_epochs(new, labels)
    job.write(BUILD, "consumer_epochs", epochs, replace=rebuild)
    known = None if rebuild else store.read(spark, "group_generations")
    job.write(BUILD, "group_generations", silver.group_generations(new, labels, known))


def work_out(
    job: Job,
    *,
    log_ends: "str | DataFrame | None" = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
) -> None:
    """Work out ownership and gold from silver.

    Args:
        job: with or without silver of its own.
        log_ends, retention_ms: see `run`.
    """
    job.expect(len(_REBUILT))
    runs = scans.commit_run_rows(job.spark, job.store)
    with (
        _kept(_histories(job)) as histories,
        _kept(commit_progress.commit_minutes(runs)) as summed,
    ):
        told = group_histories.told(histories)
        rebalances = commit_progress.of_others(told.rebalances)
        job.write(BUILD, "rebalances", rebalances)
        job.write(BUILD, "ownership", told.ownership)
        job.write(BUILD, "member_sessions", commit_progress.of_others(told.member_sessions))
        minutes = commit_progress.with_overlaps(summed, job.read("offset_commits"))
        job.write(BUILD, "commit_velocity_1m", minutes)
        moves = told.partition_moves
        moments = commit_progress.moments(moves).toArrow()
        handed = scans.handed_over_rows(job.spark, job.store, moments)
        moves = commit_progress.with_handover(moves, moments, minutes, handed)
        job.write(BUILD, "partition_moves", moves)
        ends = _read_log_ends(job.spark, log_ends)
        job.write(BUILD, "lag_1m", commit_progress.lag_1m(minutes, ends))
        with _kept(scans.segment_sum_rows(job.spark, job.store)) as sums:
            job.write(BUILD, "log_health", log_health(sums, job.read("quarantine")))
        tables = Tables(
            job.read("rebalances"),
            job.read("ownership"),
            job.read("member_sessions"),
            job.read("group_generations"),
            minutes,
            job.read("lag_1m"),
            retention_ms,
        )
        job.write(BUILD, "anomalies", anomalies(tables))


def _histories(job: Job) -> DataFrame:
    epochs = job.read("consumer_epochs")
    return group_histories.histories(
        job.read("journal_records"),
        job.read("group_generations"),
        epochs,
        job.labels,
        _topic_names(job, epochs),
    )


def _topic_names(job: Job, epochs: DataFrame) -> dict[str, str]:
    """Topic names by id, as commits tell them; only KIP-848 groups need them."""
    if epochs.isEmpty():
        return {}
    commits = job.read("offset_commits").where("topic_id is not null")
    return {
        row["topic_id"]: row["topic"]
        for row in commits.select("topic_id", "topic").distinct().collect()
    }


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, until the end of the block."""
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
    """Whether the last run had other log ends; a frame can't be compared, and is new."""
    seen = job.options["log_ends"] = _fingerprint(log_ends)
    known = job.store.runs[-1].get("options", {}) if job.store.runs else {}
    return log_ends is not None and (seen is None or seen != known.get("log_ends"))


def _fingerprint(log_ends: "str | DataFrame | None") -> list[Any] | None:
    """Of a table of log ends, to see whether it is another one; None where that can't be seen."""
    if not isinstance(log_ends, str) or not os.path.isfile(log_ends):
        return None
    status = os.stat(log_ends)
    return [os.path.realpath(log_ends), status.st_size, status.st_mtime_ns]
