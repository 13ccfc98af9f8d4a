"""10,000 share partitions: the memory of their leader, and the time to load them after a restart.

There is no broker and no socket: the server's own code runs in the generator's process. Each share
partition has 2,000 records in flight, acquired 500 at a time, with a lock for each acquisition. In
the log each has a snapshot and two updates, in the partitions that Kafka gives them. Times are CPU
time.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.measures import MILLISECONDS, Metric, Numbers, Outcome, Row, Scenario, known
from benchmarks.processes import rss_mib
from benchmarks.session import Job
from coterie.coordinator.kernel.timer_wheel import TimingWheel
from coterie.coordinator.share_partition.acquisition import Acquisition, LogBatch, acquire
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import ARCHIVED, AVAILABLE, StateBatch
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.service import ShareCoordinator
from coterie.coordinator.share_state.share_state import ShareState
from coterie.coordinator.topic_image import TopicImage, TopicsImage
from coterie.protocol.records import encode_batch
from coterie.server.coordinators.loading import LogReplay
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig

PARTITIONS = 10_000
QUICK_PARTITIONS = 500
_LOG_PARTITIONS = 50
_PARTITIONS_OF_A_TOPIC = 100
_IN_FLIGHT, _AT_ONCE, _IN_LOG_BATCH = 2_000, 500, 16
_UPDATES = 2
_NOW_MS = 1_700_000_000_000
_LOCK_MS = 30_000
_CONFIG = LogConfig()

MIB = Metric("rss_mib", "RSS\nMiB", 0)
CPU_MS = Metric("load_ms", "CPU ms", 0)


def _key(number: int) -> ShareKey:
    topic, index = divmod(number, _PARTITIONS_OF_A_TOPIC)
    return ShareKey("bench", topic.to_bytes(15, "big") + b"\x01", index)


async def run(job: Job, row: Row) -> Outcome:
    """Measure a row."""
    count = QUICK_PARTITIONS if job.quick else PARTITIONS
    return Outcome(_in_flight(count) if row.key == "in_flight" else _load(count))


def _in_flight(count: int) -> Numbers:
    """Let members acquire records of share partitions; return the memory that these take."""
    batches = [
        LogBatch(first, first + _IN_LOG_BATCH - 1) for first in range(0, _IN_FLIGHT, _IN_LOG_BATCH)
    ]
    gc.collect()
    before = rss_mib(os.getpid())
    # As in the leader, whose timer fires at the first deadline of all.
    locks: TimingWheel[ShareKey] = TimingWheel(_NOW_MS)
    led: dict[ShareKey, SharePartition] = {}
    for number in range(count):
        key = _key(number)
        share = led[key] = SharePartition(0, _NOW_MS)
        for first in range(0, _IN_FLIGHT, _AT_ONCE):
            asked = Acquisition(
                f"bench-{number:016d}", _AT_ONCE, _AT_ONCE, False, _IN_FLIGHT, 5, _NOW_MS + _LOCK_MS
            )
            offset = share.next_fetch_offset()
            acquire(share, asked, offset, batches[first // _IN_LOG_BATCH :])
        deadline_ms = share.next_deadline_ms()
        assert deadline_ms is not None, "each acquisition has a lock"
        locks.arm(key, deadline_ms)
        assert share.in_flight_records >= _IN_FLIGHT, "all were acquired"
    after = rss_mib(os.getpid())
    return known(rss_mib=None if before is None or after is None else after - before)


def _load(count: int) -> Numbers:
    """Write the states of share partitions, and load them as a broker does that starts."""
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        _write(Path(directory), count)
        coordinator = _coordinator(count)
        began = time.process_time()
        for index in range(_LOG_PARTITIONS):
            log = Log.open(OsFileSystem(), str(Path(directory) / str(index)), _CONFIG)
            coordinator.begin_load(index, 0)
            reading = LogReplay(
                log,
                coordinator.reader(),
                partial(coordinator.replay, index),
                partial(coordinator.replay_open, index),
            )
            while reading.step():
                pass
            coordinator.finish_load(index, _NOW_MS)
            log.abandon()
        took_s = time.process_time() - began
    found = sum(len(shard.states) for shard in coordinator.shards)
    assert found == count, f"{found} of {count} share partitions are known"
    return known(load_ms=took_s * MILLISECONDS)


def _coordinator(count: int) -> ShareCoordinator:
    ids = {_key(number).topic_id for number in range(count)}
    topics = [TopicImage(each.hex(), each, _PARTITIONS_OF_A_TOPIC) for each in ids]
    by_name, by_id = (
        {each.name: each for each in topics},
        {each.topic_id: each for each in topics},
    )
    coordinator = ShareCoordinator(ShareStateConfig(), TopicsImage(by_name, by_id))
    coordinator.set_partitions(_LOG_PARTITIONS)
    return coordinator


def _write(directory: Path, count: int) -> None:
    coordinator = _coordinator(count)
    pairs: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(_LOG_PARTITIONS)]
    for number in range(count):
        key = _key(number)
        written = pairs[coordinator.partition_for(key)]
        state = ShareState(0, 2, 0, _NOW_MS)
        written += coordinator.encode([state.snapshot(key, _NOW_MS)])
        for first in range(0, _UPDATES * _AT_ONCE, _AT_ONCE):
            states = (
                StateBatch(first + 1, first + 9, AVAILABLE, 1),
                StateBatch(first + 10, first + 99, ARCHIVED, 1),
            )
            written += coordinator.encode([state.update(key, 0, 0, 90, states)])
    for index, written in enumerate(pairs):
        (directory / str(index)).mkdir()
        log = Log.open(OsFileSystem(), str(directory / str(index)), _CONFIG)
        for pair in written:
            log.append(encode_batch([pair], log.log_end_offset, _NOW_MS), _NOW_MS)
        log.close()


SCENARIO = Scenario(
    key="share_partitions",
    title="10,000 share partitions (KIP-932) in memory, and loaded (CPU time)",
    rows=(
        Row("in_flight", "2,000 records in flight in each", {MIB.key: 300}),
        Row("restart", "their states are loaded", {CPU_MS.key: 1000}),
    ),
    metrics=(MIB, CPU_MS),
    primary=MIB,
    run=run,
    brokerless=True,
)
