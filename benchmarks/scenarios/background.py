"""Heartbeats while the server has other work: nothing, a large log to compact, a large log to load.

Each row starts a server of its own over a directory that holds one large partition of the groups;
the members' groups are in other partitions. The row `quiet` has the same directory and the cleaner
switched off: what counts is the p99 of the others beside it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import stable_members
from benchmarks.answers import error_at
from benchmarks.brokers import Child, coterie
from benchmarks.frames import HEARTBEAT
from benchmarks.measures import CPU_US, P50_US, P99_US, PEAK_RSS_MIB, Metric, Outcome, Row, Scenario
from benchmarks.scenarios.load import QUICK_RECORDS, write_log
from benchmarks.session import Conversation, Job, Membership, Session, group_name
from benchmarks.steady import CLOSED, Ring
from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.client.groups import list_groups
from coterie.coordinator.placement import partition_for
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.directory import DataDirectory
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import LogConfig

RECORDS = 4_000_000
KEYS = 20_000
LOAD_TIMEOUT_S = 60.0
PARTITIONS = 50
# Members are formed before the load is measured; cleaning must go on long after that.
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
                await asyncio.to_thread(_wait_until_loaded, f"{job.host}:{job.port}")
            outcome = await stable_members.measure(job, Row("closed", row.title), _heartbeats)
            outcome.numbers["log_mib"] = _log_mib(data, large)
        finally:
            await asyncio.to_thread(server.stop)
    return outcome


def _wait_until_loaded(bootstrap: str) -> None:
    """Groups are listed when every partition is loaded, and refused before."""
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
    """A data directory whose offsets topic has one large partition."""
    directory = DataDirectory.open(
        OsFileSystem(), path, node_id=1, cluster_id="bench", directory_id="bench"
    )
    directory.create_partitions(OFFSETS_TOPIC, range(PARTITIONS), b"0123456789abcdef")
    directory.close()
    write_log(f"{path}/{OFFSETS_TOPIC}-{large}", records, 1, min(KEYS, records // 10), _CONFIG)


def _server(data: str, settings: tuple[str, ...]) -> Child:
    started = coterie()
    options = [part for setting in settings for part in ("--config", setting)]

    def command(port: int, _: str) -> list[str]:
        return [*started.command(port, data), *options]

    return Child("coterie", command)


async def _heartbeats(session: Session, conversation: Conversation, member: Membership) -> Ring:
    frame = session.frames.heartbeat(member.group, member.generation, member.member_id)
    places = (error_at(session.frames.spoken(HEARTBEAT)),)
    return Ring([frame], await conversation.ask(frame), HEARTBEAT.name, places)


SCENARIO = Scenario(
    key="background",
    title="Heartbeats, closed loop, while the server loads or compacts a partition",
    rows=(
        Row("quiet", "nothing else to do"),
        Row("compacting", "compacting one partition"),
        Row("loading", "loading one partition"),
    ),
    metrics=(P99_US, P50_US, CPU_US, PEAK_RSS_MIB, LOG_MIB),
    primary=P99_US,
    run=run,
    brokerless=True,
)
