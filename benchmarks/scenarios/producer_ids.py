"""Opening a log whose partition knows 100,000 producers: after a clean stop, and after a kill.

There is no broker and no socket: the server's own code runs over a real directory. After a clean
stop the producers are in a snapshot; after a kill their batches are read again. Times are CPU time.
"""

from __future__ import annotations

import tempfile
import time

from benchmarks.measures import MILLISECONDS, Metric, Outcome, Row, Scenario, known
from benchmarks.session import Job
from coterie.protocol.records import encode_batch
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig

PRODUCERS = 100_000
QUICK_PRODUCERS = 5_000
_CONFIG = LogConfig()
_BATCHES_AT_ONCE = 500

OPEN_MS = Metric("open_ms", "open\nCPU ms", 0)


async def run(job: Job, row: Row) -> Outcome:
    """Write a log with one batch of each producer, and open it."""
    count = QUICK_PRODUCERS if job.quick else PRODUCERS
    now_ms = int(time.time() * 1000)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        log = Log.open(OsFileSystem(), directory, _CONFIG)
        batches = [
            encode_batch([(b"", b"value")], 0, now_ms, producer_id=each, producer_epoch=0)
            for each in range(count)
        ]
        for first in range(0, count, _BATCHES_AT_ONCE):
            log.append(b"".join(batches[first : first + _BATCHES_AT_ONCE]), now_ms)
        if row.key == "stopped":
            log.close()
        else:
            log.abandon()
        began = time.process_time()
        log = Log.open(OsFileSystem(), directory, _CONFIG)
        found = len(log.producers)
        took_s = time.process_time() - began
        log.abandon()
    assert found == count, f"{found} of {count} producers are known"
    return Outcome(known(open_ms=took_s * MILLISECONDS))


SCENARIO = Scenario(
    key="producer_ids",
    title="Opening a log with 100,000 producers (CPU time; the goal is one second)",
    rows=(
        Row("stopped", "after a clean stop", {OPEN_MS.key: 1000}),
        Row("killed", "after a kill", {OPEN_MS.key: 1000}),
    ),
    metrics=(OPEN_MS,),
    primary=OPEN_MS,
    run=run,
    brokerless=True,
)
