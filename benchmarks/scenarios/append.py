"""Offset commits appended to the group log: the disk's part of a commit.

There is no broker and no socket. `never` is one write for each commit, as with `--flush never`.
`commit` is one write and one sync for each, the worst case of `--flush commit`. `group` is a
hundred commits in one write and one sync, as in one turn of a busy event loop.
"""

from __future__ import annotations

import tempfile
import time
from typing import NamedTuple

from benchmarks.measures import MICROSECONDS, Metric, Outcome, Row, Scenario, known
from benchmarks.session import Job
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import encode_batch
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig

START_MS = 1_700_000_000_000
COMMITS_PER_S = Metric("commits_per_s", "commits/s", 0, more_is_better=True)
COMMIT_US = Metric("commit_us", "µs/commit", 1)
CPU_COMMIT_US = Metric("cpu_commit_us", "CPU\nµs/commit", 1)
GROUP = 100


class Shape(NamedTuple):
    """How commits are written."""

    commits_per_write: int
    synced: bool


_SHAPES = {"never": Shape(1, False), "commit": Shape(1, True), "group": Shape(GROUP, True)}


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row for the job's duration."""
    shape = _SHAPES[row.key]
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        config = LogConfig(segment_bytes=104_857_600, compacted=True, flush=shape.synced)
        log = Log.open(OsFileSystem(), directory, config)
        # The first checksum imports the library that computes it.
        log.append(encode_batch([_commit(0)], log.log_end_offset, START_MS))
        number = 0
        cpu_began, began = time.process_time(), time.perf_counter()
        until = began + job.duration_s
        while time.perf_counter() < until:
            pairs = [_commit(number + each) for each in range(shape.commits_per_write)]
            log.append(encode_batch(pairs, log.log_end_offset, START_MS + number))
            if shape.synced:
                log.sync()
            number += shape.commits_per_write
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        log.abandon()
    return Outcome(
        known(
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
        Row("never", "flush never: one write each"),
        Row("commit", "flush commit: one write and one sync each"),
        Row("group", f"flush commit: one write and one sync for {GROUP}"),
    ),
    metrics=(COMMITS_PER_S, COMMIT_US, CPU_COMMIT_US),
    primary=COMMITS_PER_S,
    run=run,
    brokerless=True,
)
