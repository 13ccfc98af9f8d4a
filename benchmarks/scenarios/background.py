"""Heartbeats while the server also compacts or loads a large log.

Each row starts a server of its own over a directory with one large partition of the group log; the
members' groups are in other partitions. The row `quiet` has the same directory with the cleaner
switched off. The figure that counts is the p99 of the other rows compared with this one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import stable_members
from benchmarks.brokers import Child, coterie
from benchmarks.measures import CPU_US, P50_US, P99_US, PEAK_RSS_MIB, Metric, Outcome, Row, Scenario
from benchmarks.scenarios.load import QUICK_RECORDS, Shape, write_log
from benchmarks.session import Job, group_name
from benchmarks.steady import CLOSED
from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.client.groups import list_groups
from coterie.protocol.java_hash import partition_for
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.directory import DataDirectory
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log_config import LogConfig

RECORDS = 4_000_000
KEYS = 20_000
LOAD_TIMEOUT_S = 60.0
PARTITIONS = 50
# The cleaner must still be at work when the members' groups exist and the measurement begins, so
# the log is large and cleaned at the smallest dirty ratio.
_CLEANER = {
    "quiet": ("log.cleaner.enable=false",),
    "compacting": (
        "log.cleaner.backoff.ms=50",
        "log.cleaner.min.cleanable.ratio=0.01",
    ),
    "loading": ("log.cleaner.enable=false",),
}
_CONFIG = LogConfig(segment_bytes=8 << 20, compacted=True)
LOG_MIB = Metric("log_mib", "log left\nMiB", 0)


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    job = replace(job, row="closed")
    taken = {
        partition_for(group_name(job, number), PARTITIONS) for number in range(CLOSED.connections)
    }
    large = next(index for index in range(PARTITIONS) if index not in taken)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as scratch:
        data = os.path.join(scratch, "data")
        _prepare_directory(data, large, QUICK_RECORDS if job.quick else RECORDS)
        server = _server(data, _CLEANER[row.key])
        running = await asyncio.to_thread(server.start)
        try:
            job = replace(
                job, host=running.address.host, port=running.address.port, pid=running.address.pid
            )
            if row.key != "loading":
                await asyncio.to_thread(wait_until_loaded, f"{job.host}:{job.port}")
            outcome = await stable_members.measure(
                job, Row("closed", row.title), stable_members.prepare_heartbeats
            )
            outcome.numbers["log_mib"] = _log_mib(data, large)
        finally:
            await asyncio.to_thread(server.stop)
    return outcome


def wait_until_loaded(bootstrap: str) -> None:
    """Wait until every partition is loaded: until then ListGroups is refused."""
    deadline = time.monotonic() + LOAD_TIMEOUT_S
    with Cluster(bootstrap) as cluster:
        while True:
            try:
                list_groups(cluster)
            except Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


def _log_mib(data: str, partition: int) -> float:
    segments = Path(data, f"{OFFSETS_TOPIC}-{partition}").glob("*.log")
    return sum(each.stat().st_size for each in segments) / (1 << 20)


def _prepare_directory(path: str, large: int, records: int) -> None:
    """Create a data directory whose offsets topic has one large partition."""
    directory = DataDirectory.open(
        OsFileSystem(), path, node_id=1, cluster_id="bench", directory_id="bench"
    )
    directory.create_partitions(OFFSETS_TOPIC, range(PARTITIONS), b"0123456789abcdef")
    directory.close()
    shape = Shape(1, KEYS).limited(records)
    write_log(f"{path}/{OFFSETS_TOPIC}-{large}", records, shape, _CONFIG)


def _server(data: str, settings: tuple[str, ...]) -> Child:
    started = coterie()
    options = [part for setting in settings for part in ("--config", setting)]

    def command(port: int, _: str) -> list[str]:
        return [*started.command(port, data), *options]

    return Child("coterie", command)


SCENARIO = Scenario(
    key="background",
    title="Heartbeats, closed loop, while the server loads or compacts a partition",
    rows=(
        Row("quiet", "no other work"),
        Row("compacting", "compacting one partition"),
        Row("loading", "loading one partition"),
    ),
    metrics=(P99_US, P50_US, CPU_US, PEAK_RSS_MIB, LOG_MIB),
    primary=P99_US,
    run=run,
    brokerless=True,
)
