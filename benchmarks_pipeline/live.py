"""From an append to a log to a row that counts in bronze, while builds go on: milliseconds.

python -m benchmarks_pipeline.live [--seconds N] [--per-second N]
"""

import argparse
import os
import sys
import tempfile
import threading
import time

from benchmarks_pipeline.logs import TOPIC, SegmentWriter
from coterie.pipeline.jobs.follow import FOLLOW_SETTINGS, Appended, FollowOptions, follow
from coterie.pipeline.session import start_session
from protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue, encode_key

# More tasks at once than cores, so that a batch of few records need not wait for a build's tasks.
MASTER = "local[4]"
# Until Python's workers and Spark's code are warm.
_WARM_UP_S = 20.0


class _Feeder(threading.Thread):
    """Appends a batch at a time, and remembers when."""

    def __init__(self, logs: str, per_second: float) -> None:
        super().__init__(daemon=True)
        self._writer = SegmentWriter(os.path.join(logs, f"{TOPIC}-0"), 64 << 20)
        self._pause_s = 1 / per_second
        self.waiting: dict[int, float] = {}
        self.done = threading.Event()
        self.put()

    def put(self) -> None:
        now_s = time.time()
        offset = self._writer.next_offset
        key = encode_key(OffsetCommitKey(group="live", topic="paid", partition=offset % 100))
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=int(now_s * 1000))
        encoded = (3).to_bytes(2) + OffsetCommitValue.encoder(3)(value)
        self.waiting[offset] = time.monotonic()
        self._writer.append([(key, encoded)], int(now_s * 1000))
        self._writer.flush()

    def run(self) -> None:
        while not self.done.wait(self._pause_s):
            self.put()


def measure(root: str, seconds: float, per_second: float, build_every_s: float) -> None:
    """Follow a log that grows; print how old its records are when they count."""
    logs = os.path.join(root, "logs")
    feeder = _Feeder(logs, per_second)
    latencies_s: list[float] = []
    began_s = 0.0

    def told(appended: Appended) -> None:
        nonlocal began_s
        now_s = time.monotonic()
        began_s = began_s or now_s
        for offset in [each for each in feeder.waiting if each < appended.positions[0]]:
            appended_s = feeder.waiting.pop(offset)
            if appended_s >= began_s + _WARM_UP_S:
                latencies_s.append(now_s - appended_s)
        if now_s >= began_s + _WARM_UP_S + seconds:
            stop.set()

    stop = threading.Event()
    spark = start_session("bench", master=MASTER, settings=FOLLOW_SETTINGS)
    feeder.start()
    options = FollowOptions(build_every_s=build_every_s)
    report = follow(
        spark, [logs], os.path.join(root, "tables"), stop=stop, options=options, told=told
    )
    feeder.done.set()
    feeder.join()
    spark.stop()
    latencies_s.sort()
    at = [latencies_s[int(len(latencies_s) * share)] * 1000 for share in (0.5, 0.95, 0.99)]
    print(
        f"live latency: p50 {at[0]:.0f} ms, p95 {at[1]:.0f} ms, p99 {at[2]:.0f} ms over"
        f" {len(latencies_s):,} records; {report.batches} batches, {report.builds} builds,"
        f" load {os.getloadavg()[0]:.1f}"
    )


def main() -> int:
    """Run it; the figures go to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--per-second", type=float, default=100.0)
    parser.add_argument("--build-every", type=float, default=30.0)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as root:
        measure(root, arguments.seconds, arguments.per_second, arguments.build_every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
