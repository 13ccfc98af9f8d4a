"""Offset commits appended to the group log: what the disk's part of a commit costs.

No broker and no socket. `never` is a write for each commit, as `--flush never` does; `commit` is a
write and a sync for each, the worst case of `--flush commit`; `group` is a hundred commits in one
write and one sync, as they come in one turn of a busy event loop.
"""

from __future__ import annotations

import tempfile
import time

from benchmarks.measures import MICROSECONDS, Metric, Outcome, Row, Scenario, told
from benchmarks.session import Job
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import encode_batch
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log, LogConfig

START_MS = 1_700_000_000_000
COMMITS_PER_S = Metric("commits_per_s", "commits/s", 0, more_is_better=True)
COMMIT_US = Metric("commit_us", "µs/commit", 1)
CPU_COMMIT_US = Metric("cpu_commit_us", "CPU\nµs/commit", 1)
GROUP = 100

# Row key -> commits a write, whether each write is synced.
_SHAPES = {"never": (1, False), "commit": (1, True), "group": (GROUP, True)}


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row for the job's duration."""
    in_write, synced = _SHAPES[row.key]
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        config = LogConfig(segment_bytes=104_857_600, compacted=True, flush=synced)
        log = Log.open(OsFileSystem(), directory, config)
        # The first checksum imports what computes it.
        log.append(encode_batch([_commit(0)], log.log_end_offset, START_MS))
        number = 0
        cpu_began, began = time.process_time(), time.perf_counter()
        until = began + job.duration_s
        while time.perf_counter() < until:
            pairs = [_commit(number + each) for each in range(in_write)]
            log.append(encode_batch(pairs, log.log_end_offset, START_MS + number))
            if synced:
                log.sync()
            number += in_write
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        log.abandon()
    return Outcome(
        told(
            commits_per_s=number / took_s,
            commit_us=took_s / number * MICROSECONDS,
            cpu_commit_us=cpu_s / number * MICROSECONDS,
        )
    )


def _commit(number: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group=f"group-{number % 100:05}", topic="topic", partition=number % 7)
    value = OffsetCommitValue(
        offset=number, leader_epoch=3, metadata="", commit_timestamp=START_MS + number
    )
    return encode_key(key), encode_value(value)


SCENARIO = Scenario(
    key="append",
    title="Offset commits appended to the log",
    rows=(
        Row("never", "flush never: a write each"),
        Row("commit", "flush commit: a write and a sync each"),
        Row("group", f"flush commit: a write and a sync for {GROUP}"),
    ),
    metrics=(COMMITS_PER_S, COMMIT_US, CPU_COMMIT_US),
    primary=COMMITS_PER_S,
    run=run,
    brokerless=True,
)
