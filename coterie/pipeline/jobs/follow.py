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
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from coterie.pipeline.codec.views import CHECKED_BY, quarantined
from coterie.pipeline.jobs.follow_source import followed
from coterie.pipeline.jobs.follow_wire import Wire
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.jobs.run import Job, Progress, RunReport, build, run
from coterie.pipeline.kafka_input import TABLE_OF, is_kafka
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# A build and the streams run beside each other: without fair turns a batch of few records would
# wait for all tasks of a build.
FOLLOW_SETTINGS = {"spark.scheduler.mode": "FAIR"}
_BRONZE_POOL, _BUILD_POOL = "bronze", "build"

# A micro-batch costs about 300 ms here; more of them would only make more files.
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
        build_every_s: how often silver and gold are brought up to date while records come.
        crc: whether to check checksums.
        log_ends: a file of log-end offsets, as for `run`.
    """

    trigger_ms: int = TRIGGER_MS
    build_every_s: float = BUILD_EVERY_S
    crc: bool = True
    log_ends: str | None = None


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
        self._is_dirty = False
        self._tails: list[_Tail] = []
        self._wires: list[Wire] = []
        self._scratch = tempfile.mkdtemp(prefix="coterie-follow-")

    def start(self, directories: list[str], sources: list[str]) -> None:
        """Start everything that there is already."""
        turns: dict[tuple[str, str], threading.Lock] = {}
        for path in dict.fromkeys(os.path.realpath(each) for each in directories):
            for topic in TABLE_OF:
                source = identity_of(path)
                turn = turns.setdefault((source, topic), threading.Lock())
                self._tails.append(_Tail(self, source, path, topic, turn))
        for address in sources:
            wire = Wire(address, self.store, self.append, self.options.trigger_ms)
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
            is_idle = now_s - self._newest_s >= IDLE_S
            if self._is_dirty and (is_idle or now_s - built_s >= self.options.build_every_s):
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
        self._is_dirty = True
        if self._told is not None and topic:
            self._told(Appended(source, topic, rows, positions))

    def checkpoint(self, name: str) -> str:
        """A directory for a stream's checkpoint, which lives as long as this process."""
        return tempfile.mkdtemp(prefix=name, dir=self._scratch)

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
        for tail in self._tails:
            tail.look()
        for wire in self._wires:
            wire.look()

    def _build(self) -> None:
        """Bring silver and gold up to date with the bronze of this moment."""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _BUILD_POOL)
        self._is_dirty = False
        job = Job(self.spark, self.store.snapshot(), self._progress)
        build(job, log_ends=self._log_ends(job))
        job.finish()
        self.builds += 1
        for table in TABLES:
            if TABLES[table].grows:
                self.store.merge(self.spark, table)

    def _log_ends(self, job: Job) -> "str | DataFrame | None":
        if self.options.log_ends is not None or not job.store.rows("log_ends"):
            return self.options.log_ends
        return job.read("log_ends")


class _Tail:
    """One topic of one data directory as a stream; it begins when the topic exists."""

    def __init__(
        self, following: _Following, source: str, path: str, topic: str, turn: threading.Lock
    ) -> None:
        self._following = following
        self._source = source
        self._path = path
        self._topic = topic
        # Several directories may have the same partition: each record is taken from one of them.
        self._turn = turn
        self._query: StreamingQuery | None = None
        self._is_stopping = False

    def look(self) -> None:
        """Start the stream if its topic is there by now, and raise if it has failed."""
        if self._query is not None:
            if not self._query.isActive:
                error = self._query.exception()
                raise error if error is not None else RuntimeError(f"{self._path}: stream ended")
            return
        try:
            find_partitions(self._path, self._topic)
        except NoSuchLog:
            return
        following = self._following
        positions = following.store.position(self._source, self._topic)
        stream = followed(
            following.spark, self._path, self._topic, positions, crc=following.options.crc
        )
        self._query = (
            stream.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", following.checkpoint(self._topic))
            .trigger(processingTime=f"{following.options.trigger_ms} milliseconds")
            .start()
        )

    def stop(self) -> None:
        """End the stream, after the micro-batch that is being appended: Spark would interrupt it.

        Those that follow are passed over, and read by whoever comes next.
        """
        self._is_stopping = True
        with self._turn:
            pass
        if self._query is not None:
            self._query.stop()

    def _take(self, batch: DataFrame, _batch_id: int) -> None:
        """Append one micro-batch, and what was damaged between its records."""
        store = self._following.store
        table = TABLE_OF[self._topic]
        with self._turn:
            if self._is_stopping:
                return
            begin = store.position(self._source, self._topic)
            rows = batch.withColumn("input", sf.lit(self._source)).where(_from_offsets(begin))
            directory = store.new_directory(table)
            rows.select(*TABLES[table].schema.names).write.parquet(directory)
            reached, count = _reached(directory)
            if not count:
                shutil.rmtree(directory)
                return
            directories = {table: directory}
            damaged = self._damaged(begin, reached)
            if damaged:
                directories["quarantine"] = store.write_rows("quarantine", damaged)
            self._following.append(self._source, self._topic, directories, reached, count)

    def _damaged(self, begin: dict[int, int], reached: dict[int, int]) -> list[pa.RecordBatch]:
        """What is between these offsets and can't be decoded."""
        found = []
        partitions = find_partitions(self._path, self._topic)
        for number, end in reached.items():
            if number not in partitions:
                continue
            log_range = LogRange(partitions[number], number, begin.get(number, 0), end)
            crc = self._following.options.crc
            for step in read_range(log_range, CHECKED_BY[self._topic], crc=crc):
                if step.damages:
                    rows = quarantined(step.source, step.damages)
                    named = [pa.repeat(self._source, rows.num_rows), *rows.columns]
                    schema = TABLES["quarantine"].schema
                    found.append(pa.RecordBatch.from_arrays(named, schema=schema))
        return found


def _from_offsets(begin: dict[int, int]) -> Any:
    """Whether a record has not been read before."""
    if not begin:
        return sf.lit(True)
    pairs = [sf.lit(each) for item in begin.items() for each in item]
    known = sf.try_element_at(sf.create_map(*pairs), sf.col("log_partition"))
    return sf.col("log_offset") >= sf.coalesce(known, sf.lit(0))


def _reached(directory: str) -> tuple[dict[int, int], int]:
    """The next offset by log partition, behind the records of some Parquet files; how many."""
    names = [name for name in os.listdir(directory) if name.endswith(".parquet")]
    reached: dict[int, int] = {}
    count = 0
    for name in names:
        places = pq.ParquetFile(os.path.join(directory, name)).read(["log_partition", "log_offset"])
        count += places.num_rows
        newest = places.group_by("log_partition").aggregate([("log_offset", "max")])
        for row in newest.to_pylist():
            number, offset = row["log_partition"], row["log_offset_max"] + 1
            reached[number] = max(reached.get(number, 0), offset)
    return reached, count
