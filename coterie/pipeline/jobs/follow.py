"""Follow logs: new records become bronze within a second, the other tables are built later.

    stop = stop_on_signals()
    with start_session(settings=FOLLOW_SETTINGS) as spark:
        follow(spark, ["/var/lib/kafka", "kafka://other:9092"], "/data/forensics", stop=stop)

An ordinary run catches up first. Then each topic of a data directory is a structured stream, whose
micro-batches are appended one by one, and each cluster is a thread that fetches. Silver and gold
are built every `build_every_s` seconds, or as soon as no new records arrive. Another ordinary run
ends it.

Every record counts once even if the process is killed: rows and the offsets up to which they reach
are committed by the same replacement of the manifest, and a new process starts from those offsets
[pipeline/manifest].
"""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NamedTuple, cast

from pyspark.sql import SparkSession

from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.jobs.follow_tail import Tail
from coterie.pipeline.jobs.follow_wire import Wire
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.jobs.job import Job, Progress, RunReport
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.jobs.run import build, run
from coterie.pipeline.kafka_input import TABLE_OF, is_kafka
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.tables import TABLES

FOLLOW_SETTINGS = {
    # Builds and streams run at the same time. Without fair scheduling a large micro-batch would
    # wait for all tasks of a build.
    "spark.scheduler.mode": "FAIR",
    # Spark's default starts processes that set the mode of every file of a checkpoint, which costs
    # 110 ms per micro-batch. This manager does not. It is less safe, but the checkpoints here are
    # removed when the process ends.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_BRONZE_POOL, _BUILD_POOL = "bronze", "build"

# A micro-batch of few records costs about 100 ms. A shorter interval would only make more files.
TRIGGER_MS = 250
BUILD_EVERY_S = 30.0
# After this time without new records a build starts early.
IDLE_S = 2.0
# How often to check whether a topic exists by now, and whether a stream has failed.
_CHECK_EVERY_S = 2.0
_TICK_S = 0.2


class Appended(NamedTuple):
    """New records that have been committed.

    Attributes:
        input, topic: where they come from.
        rows: the number of records.
        positions: the next offset by log partition.
    """

    input: str
    topic: str
    rows: int
    positions: dict[int, int]


class FollowReport(NamedTuple):
    """The result of following, from the first run to the last."""

    rows: int
    batches: int
    builds: int
    seconds: float
    first: RunReport
    last: RunReport


class FollowOptions(NamedTuple):
    """Options of following.

    Attributes:
        trigger_ms: how often to check for new records.
        build_every_s: the time between the end of a build and the next one while records arrive.
        crc: whether to check checksums.
        log_ends, retention_ms: as for `run`.
    """

    trigger_ms: int = TRIGGER_MS
    build_every_s: float = BUILD_EVERY_S
    crc: bool = True
    log_ends: str | None = None
    retention_ms: int = OFFSETS_RETENTION_MS


def stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set.

    Call it in the main thread, after the session was started, because PySpark installs a handler of
    its own for SIGINT.
    """
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def follow(
    spark: SparkSession,
    inputs: Iterable[str],
    output: str,
    *,
    stop: threading.Event,
    options: FollowOptions | None = None,
    progress: Progress | None = None,
    on_append: Callable[[Appended], None] | None = None,
) -> FollowReport:
    """Follow logs until `stop` is set.

    Args:
        spark: a session, with `FOLLOW_SETTINGS`.
        inputs: data directories and kafka:// addresses.
        output: the directory of the tables.
        stop: ends following. The tables then contain everything that was there when it was set.
        options: the options.
        progress: is called when a table is built.
        on_append: is called with new records, in the thread that appended them.

    Raises:
        NoSuchLog, StoreError, ClientError: see `run` and `KafkaLog`.
    """
    began = time.monotonic()
    options = FollowOptions() if options is None else options
    inputs = list(inputs)
    directories = [each for each in inputs if not is_kafka(each)]
    sources = [each for each in inputs if is_kafka(each)]

    def catch_up() -> RunReport:
        return run(
            SparkEngine(spark),
            inputs,
            output,
            log_ends=options.log_ends,
            retention_ms=options.retention_ms,
            crc=options.crc,
            progress=progress,
        )

    first = catch_up()
    with LiveStore.open(output) as store:
        following = _Following(spark, cast("LiveStore", store), options, progress, on_append)
        try:
            following.start(directories, sources)
            following.until(stop)
        finally:
            following.close()
    last = catch_up()
    seconds = time.monotonic() - began
    return FollowReport(following.rows, following.batches, following.builds, seconds, first, last)


class _Following:
    """The streams and threads of one process, and its builds.

    Attributes:
        spark, store, options: as given.
        rows, batches, builds: so far.
    """

    def __init__(
        self,
        spark: SparkSession,
        store: LiveStore,
        options: FollowOptions,
        progress: Progress | None,
        on_append: Callable[[Appended], None] | None,
    ) -> None:
        self.spark = spark
        self.store = store
        self.options = options
        self.rows = self.batches = self.builds = 0
        self._progress = progress
        self._on_append = on_append
        self._run = store.next_run
        self._began = time.monotonic()
        self._counting = threading.Lock()
        self._newest_s = 0.0
        # When the first record was appended that silver and gold do not contain yet.
        self._behind_since_s: float | None = None
        self._tails: list[Tail] = []
        self._wires: list[Wire] = []
        self._scratch = tempfile.mkdtemp(prefix="coterie-follow-")

    def start(self, directories: list[str], sources: list[str]) -> None:
        """Start a stream for each topic that exists, and a thread for each cluster."""
        locks: dict[tuple[str, str], threading.Lock] = {}
        for path in dict.fromkeys(os.path.realpath(each) for each in directories):
            for topic in TABLE_OF:
                source = identity_of(path)
                lock = locks.setdefault((source, topic), threading.Lock())
                place = source, path, topic
                crc = self.options.crc
                self._tails.append(Tail(self.store, self.append, place, lock, crc=crc))
        for address in sources:
            wire = Wire(
                address, self.store, self.append, self.options.trigger_ms, crc=self.options.crc
            )
            self._wires.append(wire)
            wire.start()
        self._check()

    def until(self, stop: threading.Event) -> None:
        """Build from time to time, until `stop` is set or something fails."""
        checked_s = built_s = time.monotonic()
        while not stop.wait(_TICK_S):
            now_s = time.monotonic()
            if now_s - checked_s >= _CHECK_EVERY_S:
                self._check()
                checked_s = now_s
            behind_s = self._behind_since_s
            if behind_s is None:
                continue
            is_idle = now_s - self._newest_s >= IDLE_S
            if is_idle or now_s - max(behind_s, built_s) >= self.options.build_every_s:
                self._build()
                built_s = time.monotonic()

    def close(self) -> None:
        """End streams and threads. An append that has begun is completed."""
        for tail in self._tails:
            tail.stop()
        for wire in self._wires:
            wire.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def append(
        self,
        source: str,
        topic: str,
        directories: dict[str, str],
        positions: dict[int, int],
        rows: int,
        about: dict[str, Any] | None = None,
    ) -> None:
        """Commit written parts.

        Args:
            source, topic: the origin of the records; an empty topic for other rows.
            directories: the directories by table, see `LiveStore.append`.
            positions: the next offset of each log partition.
            rows: the number of records.
            about: what the manifest stores about the input.
        """
        with self._counting:
            self.rows += rows
            self.batches += 1
            report = self._report()
        reached = {source: {topic: positions}} if positions else {}
        self.store.append(directories, reached, report, {source: about} if about else None)
        self._newest_s = time.monotonic()
        if self._behind_since_s is None:
            self._behind_since_s = self._newest_s
        if self._on_append is not None and topic:
            self._on_append(Appended(source, topic, rows, positions))

    def _report(self) -> dict[str, Any]:
        return {
            "run": self._run,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._began, 3),
            "input_bytes": 0,
            "tables": {},
            "follow": {"rows": self.rows, "batches": self.batches, "builds": self.builds},
        }

    def _check(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _BRONZE_POOL)
        for number, tail in enumerate(self._tails):
            checkpoint = os.path.join(self._scratch, str(number))
            tail.check(self.spark, checkpoint, self.options.trigger_ms)
        for wire in self._wires:
            wire.check()

    def _build(self) -> None:
        """Bring silver and gold up to date with the bronze of this moment."""
        # Records that are appended from here on are for the next build.
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _BUILD_POOL)
        self._behind_since_s = None
        snapshot = self.store.snapshot()
        with snapshot.scratch() as scratch:
            job = Job(SparkEngine(self.spark), snapshot, scratch, self._progress)
            build(job, log_ends=self.options.log_ends, retention_ms=self.options.retention_ms)
            job.finish()
        self.builds += 1
        for table in TABLES:
            if TABLES[table].grows:
                self.store.merge(table)
