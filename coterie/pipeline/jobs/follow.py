"""Following logs: new records become bronze within a second, the other tables a little later.

    stop = stop_on_signals()
    with start_session(settings=FOLLOW_SETTINGS) as spark:
        follow(spark, ["/var/lib/kafka", "kafka://other:9092"], "/data/forensics", stop=stop)

First comes an ordinary run, which catches up. Then each topic of a data directory is a structured
stream, whose micro-batches are appended one by one; each cluster is a thread that fetches. Silver
and gold are brought up to date every `build_every_s`, or as soon as nothing new comes, and at the
end by another ordinary run.

Every record counts once, whenever the process is killed: rows and the offsets that they reach to
are committed by the same replacement of the manifest, and a new process starts from those offsets.
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

from pyspark.sql import DataFrame, SparkSession

from coterie.pipeline.jobs.follow_tail import Tail
from coterie.pipeline.jobs.follow_wire import Wire
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.jobs.run import Job, Progress, RunReport, build, run
from coterie.pipeline.kafka_input import TABLE_OF, is_kafka
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.anomalies import OFFSETS_RETENTION_MS

FOLLOW_SETTINGS = {
    # A build and the streams run beside each other: without fair turns a large micro-batch would
    # wait for all tasks of a build.
    "spark.scheduler.mode": "FAIR",
    # For every file of a checkpoint Spark's default starts processes that set its mode: 110 ms a
    # micro-batch. This one does not, and a checkpoint here is thrown away when its process ends.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_BRONZE_POOL, _BUILD_POOL = "bronze", "build"

# A micro-batch of few records costs about 100 ms; more of them would only make more files.
TRIGGER_MS = 250
BUILD_EVERY_S = 30.0
# As long as something new comes more often than this, the build waits for its turn.
IDLE_S = 2.0
# How often to look for a topic that does not exist yet, and at the streams' health.
_LOOK_EVERY_S = 2.0
_TICK_S = 0.2


class Appended(NamedTuple):
    """New records that count now.

    Attributes:
        input, topic: whose.
        rows: how many.
        positions: the next offset by log partition.
    """

    input: str
    topic: str
    rows: int
    positions: dict[int, int]


class FollowReport(NamedTuple):
    """What following did, from the first catching up to the last build."""

    rows: int
    batches: int
    builds: int
    seconds: float
    first: RunReport
    last: RunReport


class FollowOptions(NamedTuple):
    """How to follow; see the module for the units' meaning.

    Attributes:
        trigger_ms: how often to look for new records.
        build_every_s: how long silver and gold are let be while records come; a build then takes
            them up, and the time begins again when it has ended.
        crc: whether to check checksums.
        log_ends, retention_ms: as for `run`.
    """

    trigger_ms: int = TRIGGER_MS
    build_every_s: float = BUILD_EVERY_S
    crc: bool = True
    log_ends: str | None = None
    retention_ms: int = OFFSETS_RETENTION_MS


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set; call it after the session was started, in the main
    thread."""
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
    told: Callable[[Appended], None] | None = None,
) -> FollowReport:
    """Follow logs until `stop` is set.

    Args:
        spark: a session, with `FOLLOW_SETTINGS`.
        inputs: data directories and kafka:// addresses.
        output: the directory of the tables.
        stop: ends it, with everything that is there by then in the tables.
        options: how.
        progress: is told of the tables that are built.
        told: is told of new records, in the thread that appended them.

    Raises:
        NoSuchLog, StoreError, ClientError: see `run` and `KafkaLog`.
    """
    began = time.monotonic()
    options = options or FollowOptions()
    inputs = list(inputs)
    directories = [each for each in inputs if not is_kafka(each)]
    sources = [each for each in inputs if is_kafka(each)]

    def catch_up() -> RunReport:
        return run(
            spark,
            inputs,
            output,
            log_ends=options.log_ends,
            retention_ms=options.retention_ms,
            crc=options.crc,
            progress=progress,
        )

    first = catch_up()
    with LiveStore.open(output) as store:
        following = _Following(spark, cast("LiveStore", store), options, progress, told)
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
        told: Callable[[Appended], None] | None,
    ) -> None:
        self.spark = spark
        self.store = store
        self.options = options
        self.rows = self.batches = self.builds = 0
        self._progress = progress
        self._told = told
        self._run = store.next_run
        self._began = time.monotonic()
        self._counting = threading.Lock()
        self._newest_s = 0.0
        # Since when there is something that silver and gold lack.
        self._behind_since_s: float | None = None
        self._tails: list[Tail] = []
        self._wires: list[Wire] = []
        self._scratch = tempfile.mkdtemp(prefix="coterie-follow-")

    def start(self, directories: list[str], sources: list[str]) -> None:
        """Start everything that there is already."""
        turns: dict[tuple[str, str], threading.Lock] = {}
        for path in dict.fromkeys(os.path.realpath(each) for each in directories):
            for topic in TABLE_OF:
                source = identity_of(path)
                turn = turns.setdefault((source, topic), threading.Lock())
                place = source, path, topic
                crc = self.options.crc
                self._tails.append(Tail(self.store, self.append, place, turn, crc=crc))
        for address in sources:
            wire = Wire(
                address, self.store, self.append, self.options.trigger_ms, crc=self.options.crc
            )
            self._wires.append(wire)
            wire.start()
        self._look()

    def until(self, stop: threading.Event) -> None:
        """Build now and then, until `stop` is set or something fails."""
        looked_s = built_s = time.monotonic()
        while not stop.wait(_TICK_S):
            now_s = time.monotonic()
            if now_s - looked_s >= _LOOK_EVERY_S:
                self._look()
                looked_s = now_s
            behind_s = self._behind_since_s
            if behind_s is None:
                continue
            is_idle = now_s - self._newest_s >= IDLE_S
            if is_idle or now_s - max(behind_s, built_s) >= self.options.build_every_s:
                self._build()
                built_s = time.monotonic()

    def close(self) -> None:
        """End streams and threads; what they are about to commit they still may."""
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
        """Let written parts count.

        Args:
            source, topic: what they were read from; no topic for what is no record.
            directories: by table, see `LiveStore.append`.
            positions: the next offset of each log partition.
            rows: how many records there are.
            about: what to remember of the input.
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
        if self._told is not None and topic:
            self._told(Appended(source, topic, rows, positions))

    def _report(self) -> dict[str, Any]:
        return {
            "run": self._run,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._began, 3),
            "input_bytes": 0,
            "tables": {},
            "follow": {"rows": self.rows, "batches": self.batches, "builds": self.builds},
        }

    def _look(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _BRONZE_POOL)
        for number, tail in enumerate(self._tails):
            checkpoint = os.path.join(self._scratch, str(number))
            tail.look(self.spark, checkpoint, self.options.trigger_ms)
        for wire in self._wires:
            wire.look()

    def _build(self) -> None:
        """Bring silver and gold up to date with the bronze of this moment."""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _BUILD_POOL)
        self._behind_since_s = None
        job = Job(self.spark, self.store.snapshot(), self._progress)
        build(job, log_ends=self._log_ends(job), retention_ms=self.options.retention_ms)
        job.finish()
        self.builds += 1
        for table in TABLES:
            if TABLES[table].grows:
                self.store.merge(table)

    def _log_ends(self, job: Job) -> "str | DataFrame | None":
        if self.options.log_ends is not None or not job.store.rows("log_ends"):
            return self.options.log_ends
        return job.read("log_ends")
