"""Compaction of a partition of the group log: the cleaner's rate over logs never cleaned before.

There is no broker and no socket: the server's own code runs over a real directory, one step after
the other, as `coterie compact` runs them. Times are CPU time of one thread, which excludes syncs;
memory is the growth of the process.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.measures import Metric, Numbers, Outcome, Row, Scenario, known
from benchmarks.processes import peak_rss_mib, reset_peak_rss
from benchmarks.scenarios.load import (
    CONFIG,
    QUICK_RECORDS,
    RECORDS,
    SHAPES,
    START_MS,
    shape_rows,
    write_log,
)
from benchmarks.session import Job
from coterie.storage.cleanable import CleanerConfig, cleanable
from coterie.storage.cleaner import Cleaning
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log

MIB_PER_S = Metric("mb_per_s", "MB/s", 0, more_is_better=True)
LEFT = Metric("left_percent", "left\n% of bytes", 1)
P99_STEP_MS = Metric("p99_step_ms", "p99 step\nms", 2)
WORST_STEP_MS = Metric("worst_step_ms", "worst step\nms", 2)
GROWTH_MIB = Metric("growth_mib", "RSS growth\nMiB", 0)

# Small segments, so that nearly the whole log is cleaned: the active segment is not.
_SEGMENT_BYTES = 16 << 20


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    return Outcome(_measure(row, quick=job.quick))


def _measure(row: Row, *, quick: bool) -> Numbers:
    records = QUICK_RECORDS if quick else RECORDS
    shape = SHAPES[row.key].limited(records)
    segment_bytes = _SEGMENT_BYTES // (16 if quick else 1)
    config = CONFIG._replace(segment_bytes=segment_bytes)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        write_log(directory, records, shape, config)
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
    return known(
        mb_per_s=found.dirty_bytes / took_s / 1e6,
        left_percent=100 * left / found.dirty_bytes,
        p99_step_ms=steps[int(0.99 * (len(steps) - 1))],
        worst_step_ms=steps[-1],
        growth_mib=growth_mib,
    )


def _clean(cleaning: Cleaning) -> tuple[list[float], float]:
    """Run every step; return the CPU milliseconds of each and the CPU seconds of all."""
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
    rows=shape_rows({MIB_PER_S.key: 60}),
    metrics=(MIB_PER_S, LEFT, P99_STEP_MS, WORST_STEP_MS, GROWTH_MIB),
    primary=MIB_PER_S,
    run=run,
    brokerless=True,
)
