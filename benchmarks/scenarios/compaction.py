"""Compaction of a partition of the groups: the cleaner's rate over logs that were never cleaned.

No broker and no socket: the server's own code over a real directory, all steps one after the other
as `coterie compact` runs them. Times are CPU time of one thread, syncs left out by that; memory is
what the process grows by.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.measures import Metric, Numbers, Outcome, Row, Scenario, told
from benchmarks.processes import peak_rss_mib, reset_peak_rss
from benchmarks.scenarios.load import (
    CONFIG,
    FEW_KEYS,
    MANY_KEYS,
    QUICK_RECORDS,
    RECORDS,
    START_MS,
    write_log,
)
from benchmarks.session import Job
from coterie.storage.cleaner import CleanerConfig, Cleaning, cleanable
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log

MIB_PER_S = Metric("mb_per_s", "MB/s", 0, more_is_better=True)
LEFT = Metric("left_percent", "left\n% of bytes", 1)
P99_STEP_MS = Metric("p99_step_ms", "p99 step\nms", 2)
WORST_STEP_MS = Metric("worst_step_ms", "worst step\nms", 2)
GROWTH_MIB = Metric("growth_mib", "RSS growth\nMiB", 0)

# Row key -> records a batch, keys.
_SHAPES = {
    "single_few": (1, FEW_KEYS),
    "single_many": (1, MANY_KEYS),
    "thirteen_few": (13, FEW_KEYS),
    "thirteen_many": (13, MANY_KEYS),
}
# Segments small enough that all but the last bit of the log is cleaned.
_SEGMENT_BYTES = 16 << 20


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    return Outcome(_measure(row, quick=job.quick))


def _measure(row: Row, *, quick: bool) -> Numbers:
    in_batch, keys = _SHAPES[row.key]
    records = QUICK_RECORDS if quick else RECORDS
    keys = min(keys, records // 10)
    segment_bytes = _SEGMENT_BYTES // (16 if quick else 1)
    config = CONFIG._replace(segment_bytes=segment_bytes)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        write_log(directory, records, in_batch, keys, config)
        log = Log.open(OsFileSystem(), directory, config)
        log.roll()
        cleaner = CleanerConfig(segment_bytes=segment_bytes)
        found = cleanable(log, 0, START_MS, cleaner)
        reset_peak_rss(os.getpid())
        before_mib = peak_rss_mib(os.getpid())
        steps, took_s = _clean(Cleaning(log, found, START_MS, cleaner))
        peak_mib = peak_rss_mib(os.getpid())
        growth_mib = None if peak_mib is None or before_mib is None else peak_mib - before_mib
        left = sum(path.stat().st_size for path in Path(directory).glob("*.log"))
        log.abandon()
    steps.sort()
    return told(
        mb_per_s=found.dirty_bytes / took_s / 1e6,
        left_percent=100 * left / found.dirty_bytes,
        p99_step_ms=steps[int(0.99 * (len(steps) - 1))],
        worst_step_ms=steps[-1],
        growth_mib=growth_mib,
    )


def _clean(cleaning: Cleaning) -> tuple[list[float], float]:
    """Run every step: milliseconds of CPU of each, and seconds altogether."""
    steps = []
    began = before = time.process_time()
    for step in cleaning:
        now = time.process_time()
        steps.append((now - before) * 1e3)
        if step.pending is not None:
            step.pending.run()
        before = time.process_time()
    return steps, time.process_time() - began


SCENARIO = Scenario(
    key="compaction",
    title="Compaction of a partition of 1,000,000 records (CPU time; the goal is 60 MB/s)",
    rows=(
        Row("single_few", f"one-record batches, {FEW_KEYS} keys", {MIB_PER_S.key: 60}),
        Row("single_many", f"one-record batches, {MANY_KEYS:,} keys", {MIB_PER_S.key: 60}),
        Row("thirteen_few", f"13-record batches, {FEW_KEYS} keys", {MIB_PER_S.key: 60}),
        Row("thirteen_many", f"13-record batches, {MANY_KEYS:,} keys", {MIB_PER_S.key: 60}),
    ),
    metrics=(MIB_PER_S, LEFT, P99_STEP_MS, WORST_STEP_MS, GROWTH_MIB),
    primary=MIB_PER_S,
    run=run,
    brokerless=True,
)
