"""Follow logs: new records become bronze within a second, the other tables are built later.

    stop = stop_on_signals()
    follow(LocalEngine(), ["/var/lib/kafka", "kafka://other:9092"], "/data/forensics", stop=stop)

An ordinary run catches up first. Then each topic of a data directory has a thread that reads what
is new, and each cluster one that fetches. The engine builds silver and gold every `build_every_s`
seconds, or as soon as no new records arrive. In the end they are built once more, if that is quick
enough; otherwise the next run does it.

Every record counts once even if the process is killed: rows and the offsets up to which they reach
are committed by the same replacement of the manifest, and a new process starts from those offsets
[pipeline/manifest].
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NamedTuple, cast

from coterie.client.security import PLAINTEXT, Security
from coterie.pipeline.engine import Cancelled, Engine
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.jobs.follow_tail import Tail
from coterie.pipeline.jobs.follow_wire import Wire
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.jobs.job import Job, Progress, RunReport
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.jobs.run import build, run
from coterie.pipeline.kafka_input import TABLE_OF, is_kafka
from coterie.pipeline.tables import TABLES

# An append costs about 20 ms. A shorter interval would only make more files.
TRIGGER_MS = 250
BUILD_EVERY_S = 30.0
# After this time without new records a build starts early.
IDLE_S = 2.0
# For building the tables when following is stopped. Spark needs another second to end.
LAST_BUILD_S = 1.5
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


class Built(NamedTuple):
    """A build of silver and gold while following.

    Attributes:
        rows: the new records that the tables contain now.
        tables: the number of tables that were written.
        seconds: the duration.
        behind_s: how long the oldest of these records waited to be in the tables.
        is_late: whether the time between two builds was longer than wanted.
    """

    rows: int
    tables: int
    seconds: float
    behind_s: float
    is_late: bool


class FollowReport(NamedTuple):
    """The result of following.

    Attributes:
        rows, batches, builds: appended records, appends, and builds.
        seconds: the duration.
        first, last: the first run, and the last one; None if it was cancelled.
    """

    rows: int
    batches: int
    builds: int
    seconds: float
    first: RunReport | None
    last: RunReport | None


class FollowOptions(NamedTuple):
    """Options of following.

    Attributes:
        trigger_ms: how often to check for new records.
        build_every_s: the time from the beginning of a build to that of the next one while records
            arrive.
        last_build_s: how long building may take after `stop` is set.
        crc: whether to check checksums.
        log_ends, retention_ms, security: as for `run`.
    """

    trigger_ms: int = TRIGGER_MS
    build_every_s: float = BUILD_EVERY_S
    last_build_s: float = LAST_BUILD_S
    crc: bool = True
    log_ends: str | None = None
    retention_ms: int = OFFSETS_RETENTION_MS
    security: Security = PLAINTEXT


class FollowEvents(NamedTuple):
    """Functions that are called while following.

    Attributes:
        progress: when a table is built.
        on_append: with new records, in the thread that appended them.
        on_build: after a build.
    """

    progress: Progress | None = None
    on_append: Callable[[Appended], None] | None = None
    on_build: Callable[[Built], None] | None = None


def stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set.

    Call it in the main thread, after the engine was started, because PySpark installs a handler of
    its own for SIGINT.
    """
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def follow(
    engine: Engine,
    inputs: Iterable[str],
    output: str,
    *,
    stop: threading.Event,
    options: FollowOptions | None = None,
    events: FollowEvents | None = None,
) -> FollowReport:
    """Follow logs until `stop` is set.

    Args:
        engine: runs the tasks of builds. It cannot be used again afterwards.
        inputs: data directories and kafka:// addresses.
        output: the directory of the tables.
        stop: ends following. Every record that was appended is in bronze then.
        options: the options.
        events: functions to call.

    Raises:
        NoSuchLog, StoreError, ClientError: see `run` and `KafkaLog`.
    """
    began = time.monotonic()
    options = FollowOptions() if options is None else options
    events = FollowEvents() if events is None else events
    inputs = list(inputs)
    directories = [each for each in inputs if not is_kafka(each)]
    sources = [each for each in inputs if is_kafka(each)]

    def catch_up() -> RunReport:
        return run(
            engine,
            inputs,
            output,
            log_ends=options.log_ends,
            retention_ms=options.retention_ms,
            crc=options.crc,
            security=options.security,
            progress=events.progress,
        )

    report = FollowReport(0, 0, 0, 0.0, None, None)
    with _ended_in_time(engine, stop, options.last_build_s):
        try:
            report = report._replace(first=catch_up())
            with LiveStore.open(output) as store:
                following = _Following(engine, cast("LiveStore", store), options, events)
                try:
                    following.start(directories, sources)
                    following.until(stop)
                finally:
                    following.close()
                    report = report._replace(
                        rows=following.rows, batches=following.batches, builds=following.builds
                    )
            report = report._replace(last=catch_up())
        except Cancelled:
            # What was building for too long after the end is left to the next run.
            pass
    return report._replace(seconds=time.monotonic() - began)


@contextmanager
def _ended_in_time(engine: Engine, stop: threading.Event, last_build_s: float) -> Iterator[None]:
    """Cancel what the engine does in the block if it has not ended some time after `stop`."""
    ended = threading.Event()

    def cancel() -> None:
        stop.wait()
        if not ended.wait(last_build_s):
            engine.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class _Following:
    """The threads of one process, and its builds.

    Attributes:
        engine, store, options: as given.
        rows, batches, builds: so far.
    """

    def __init__(
        self, engine: Engine, store: LiveStore, options: FollowOptions, events: FollowEvents
    ) -> None:
        self.engine = engine
        self.store = store
        self.options = options
        self.rows = self.batches = self.builds = 0
        self._events = events
        self._run = store.next_run
        self._began = time.monotonic()
        self._counting = threading.Lock()
        self._newest_s = 0.0
        self._built_rows = 0
        # When the first record was appended that silver and gold do not contain yet.
        self._behind_since_s: float | None = None
        self._threads: list[Tail | Wire] = []

    def start(self, directories: list[str], sources: list[str]) -> None:
        """Start a thread for each topic of a directory, and for each cluster."""
        crc, trigger_ms = self.options.crc, self.options.trigger_ms
        security = self.options.security
        locks: dict[tuple[str, str], threading.Lock] = {}
        for path in dict.fromkeys(os.path.realpath(each) for each in directories):
            for topic in TABLE_OF:
                source = identity_of(path)
                lock = locks.setdefault((source, topic), threading.Lock())
                place = source, path, topic
                tail = Tail(self.store, self.append, place, lock, trigger_ms, crc=crc)
                self._threads.append(tail)
        for address in sources:
            wire = Wire(address, self.store, self.append, trigger_ms, crc=crc, security=security)
            self._threads.append(wire)
        for thread in self._threads:
            thread.start()

    def until(self, stop: threading.Event) -> None:
        """Build from time to time, until `stop` is set or something fails."""
        built_s = time.monotonic()
        while not stop.wait(_TICK_S):
            for thread in self._threads:
                thread.check()
            behind_s = self._behind_since_s
            if behind_s is None:
                continue
            now_s = time.monotonic()
            is_idle = now_s - self._newest_s >= IDLE_S
            if is_idle or now_s - built_s >= self.options.build_every_s:
                # A build that lasts longer than the interval makes the next one late.
                is_late = now_s - built_s > self.options.build_every_s + 2 * _TICK_S
                built_s = now_s
                self._build(behind_s, is_late=is_late and not is_idle)

    def close(self) -> None:
        """End the threads. An append that has begun is completed."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.stop()

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
        if self._events.on_append is not None and topic:
            self._events.on_append(Appended(source, topic, rows, positions))

    def _report(self) -> dict[str, Any]:
        return {
            "run": self._run,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._began, 3),
            "input_bytes": 0,
            "tables": {},
            "follow": {"rows": self.rows, "batches": self.batches, "builds": self.builds},
        }

    def _build(self, behind_s: float, *, is_late: bool) -> None:
        """Bring silver and gold up to date with the bronze of this moment."""
        began_s = time.monotonic()
        # Records that are appended from here on are for the next build.
        self._behind_since_s = None
        rows = self.rows
        snapshot = self.store.snapshot()
        with snapshot.scratch() as scratch:
            job = Job(self.engine, snapshot, scratch, self._events.progress)
            build(job, log_ends=self.options.log_ends, retention_ms=self.options.retention_ms)
            report = job.finish()
        self.builds += 1
        for table in TABLES:
            if TABLES[table].grows:
                self.store.merge(table)
        if self._events.on_build is not None:
            now_s = time.monotonic()
            tables = len(report.steps)
            new, self._built_rows = rows - self._built_rows, rows
            built = Built(new, tables, now_s - began_s, now_s - behind_s, is_late)
            self._events.on_build(built)
