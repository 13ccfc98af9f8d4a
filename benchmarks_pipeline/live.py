"""Measure following a log: latency, processor time while idle, and the rate of catching up.

    python -m benchmarks_pipeline.live [--seconds N] [--per-second N] [--catch-up N]

Latency is measured from an append to a log file to a committed row in bronze, during builds. Then
follow the processor time of all processes with nothing new to read or build, and the rows per
second that are committed when much is appended at once.
"""

import argparse
import os
import sys
import tempfile
import threading
import time

from benchmarks_pipeline.logs import SegmentWriter, write_commits
from coterie.pipeline.jobs.follow import Appended, FollowEvents, FollowOptions, follow
from coterie.pipeline.jobs.job import WritingStep
from coterie.pipeline.session import start_session
from coterie.pipeline.spark_engine import SparkEngine
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue, encode_key
from coterie.protocol.topic_names import OFFSETS_TOPIC

MASTER = "local[2]"
# The time until Python's workers and Spark's code are warm.
_WARM_UP_S = 20.0
# If nothing was built for this time, nothing is left to build: a build begins two seconds after the
# newest record.
_QUIET_S = 6.0
_IDLE_S = 10.0
_TICK_S = 0.1
# The position of the user time in /proc/PID/stat, counted behind name, state and parent.
_USER_TIME = 9


class _Feeder(threading.Thread):
    """A thread that appends batches and remembers when."""

    def __init__(self, logs: str, per_second: float) -> None:
        super().__init__(daemon=True)
        self._writer = SegmentWriter(os.path.join(logs, f"{OFFSETS_TOPIC}-0"), 64 << 20)
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


class _Course(threading.Thread):
    """The three measurements of a following process, which is stopped in the end."""

    def __init__(self, root: str, seconds: float, per_second: float, catch_up: int) -> None:
        super().__init__(daemon=True)
        self.logs = os.path.join(root, "logs")
        self._ahead = os.path.join(root, "ahead")
        self._seconds = seconds
        self._catch_up = catch_up
        write_commits(self._ahead, catch_up)
        self._feeder = _Feeder(self.logs, per_second)
        self.stop = threading.Event()
        self._latencies_s: list[float] = []
        self._warm_s = float("inf")
        self._rows = 0
        self._is_building = False
        self._busy_s = time.monotonic()

    def on_append(self, appended: Appended) -> None:
        """Note committed records."""
        now_s = self._busy_s = time.monotonic()
        if self._warm_s == float("inf"):
            self._warm_s = now_s + _WARM_UP_S
        self._rows += appended.rows
        waiting = self._feeder.waiting
        for offset in [each for each in waiting if each < appended.positions.get(0, 0)]:
            appended_s = waiting.pop(offset)
            if appended_s >= self._warm_s:
                self._latencies_s.append(now_s - appended_s)

    def progress(self, step: WritingStep) -> None:
        """Note that a table is being built."""
        self._busy_s = time.monotonic()
        self._is_building = step.seconds is None

    def run(self) -> None:
        """Run the measurements one after the other."""
        self._feeder.start()
        while time.monotonic() < self._warm_s + self._seconds:
            time.sleep(_TICK_S)
        self._feeder.done.set()
        times_s = sorted(self._latencies_s)
        at = [times_s[int(len(times_s) * share)] * 1000 for share in (0.5, 0.95, 0.99)]
        self._print(
            f"live latency: p50 {at[0]:.0f} ms, p95 {at[1]:.0f} ms, p99 {at[2]:.0f} ms over"
            f" {len(times_s):,} records, during builds"
        )
        while self._is_building or time.monotonic() - self._busy_s < _QUIET_S:
            time.sleep(_TICK_S)
        used_s = processor_seconds(os.getpid())
        time.sleep(_IDLE_S)
        used_s = processor_seconds(os.getpid()) - used_s
        self._print(f"idle: {used_s / _IDLE_S:.2f} cores over {_IDLE_S:.0f} s")
        end_rows = self._rows + self._catch_up
        began_s = time.monotonic()
        os.rename(
            os.path.join(self._ahead, f"{OFFSETS_TOPIC}-0"),
            os.path.join(self.logs, f"{OFFSETS_TOPIC}-1"),
        )
        while self._rows < end_rows:
            time.sleep(_TICK_S)
        rate = self._catch_up / (self._busy_s - began_s)
        self._print(f"catch-up: {rate / 1000:,.0f} k rows/s over {self._catch_up:,} records")
        self.stop.set()

    def _print(self, figure: str) -> None:
        print(f"{figure} (load average {os.getloadavg()[0]:.1f})", flush=True)


def processor_seconds(process: int) -> float:
    """Return the processor time of a process and its descendants so far, from /proc."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                # The fields behind the name: state, parent, ..., user time, system time.
                _, parent, *fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(parent), []).append(int(name))
        ticks[int(name)] = sum(map(int, fields[_USER_TIME : _USER_TIME + 2]))
    total, pending = 0, [process]
    while pending:
        one = pending.pop()
        total += ticks.get(one, 0)
        pending += children.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


def measure(
    root: str, seconds: float, per_second: float, build_every_s: float, catch_up: int
) -> None:
    """Follow a log that grows; print the figures."""
    course = _Course(root, seconds, per_second, catch_up)
    spark = start_session("bench", master=MASTER)
    course.start()
    report = follow(
        SparkEngine(spark),
        [course.logs],
        os.path.join(root, "tables"),
        stop=course.stop,
        options=FollowOptions(build_every_s=build_every_s),
        events=FollowEvents(course.progress, course.on_append),
    )
    spark.stop()
    print(f"{report.batches} batches, {report.builds} builds, {report.seconds:.0f} s in all")


def main() -> int:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--per-second", type=float, default=100.0)
    parser.add_argument("--build-every", type=float, default=30.0)
    parser.add_argument("--catch-up", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as root:
        measure(
            root,
            arguments.seconds,
            arguments.per_second,
            arguments.build_every,
            arguments.catch_up,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
